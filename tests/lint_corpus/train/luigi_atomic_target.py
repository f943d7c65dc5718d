import datetime

import luigi
import pandas as pd


class ExtractDay(luigi.Task):
    day = luigi.DateParameter()

    def output(self):
        return luigi.LocalTarget(self.day.strftime("extract/%Y-%m-%d.csv"))

    def run(self):
        start = datetime.datetime.combine(self.day, datetime.time.min)
        end = start + datetime.timedelta(days=1)
        frame = pd.read_sql(
            "SELECT * FROM bookings WHERE created_at >= %(start)s AND created_at < %(end)s ORDER BY id",
            "postgresql:///hotel",
            params={"start": start, "end": end},
        )
        with self.output().open("w") as out:
            frame.to_csv(out, index=False)
