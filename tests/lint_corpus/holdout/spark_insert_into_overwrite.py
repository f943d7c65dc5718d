import sys

from pyspark.sql import SparkSession


class DailyKpi:
    table = "mart.kpi_daily"

    def __init__(self, day):
        self.day = day
        self.spark = SparkSession.builder.appName(f"kpi-{day}").enableHiveSupport().getOrCreate()

    def compute(self):
        return self.spark.sql(
            f"""
            SELECT shop_id, count(DISTINCT user_id) AS visitors, dt
            FROM core.visits
            WHERE dt = '{self.day}'
            GROUP BY shop_id, dt
            """
        )

    def save(self, df):
        df.write.mode("overwrite").insertInto(self.table)
        # same as: df.write.insertInto(self.table, overwrite=True)

    def run(self):
        self.save(self.compute())


if __name__ == "__main__":
    DailyKpi(sys.argv[1]).run()
