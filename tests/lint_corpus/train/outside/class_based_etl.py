import logging
import os
from abc import ABC, abstractmethod

import pandas as pd
from sqlalchemy import create_engine, text

logger = logging.getLogger(__name__)


class Step(ABC):
    @abstractmethod
    def run(self, day): ...


class Extract(Step):
    def run(self, day):
        return pd.read_csv(f"/data/{day}.csv")


class Load(Step):
    def __init__(self, table):
        self.engine = create_engine(os.environ["DB"])
        self.table = table

    def run(self, frame):
        self._clear(frame["day"].iloc[0])
        frame.to_sql(self.table, self.engine, if_exists="append", index=False, method="multi")

    def _clear(self, day):
        with self.engine.begin() as conn:
            conn.execute(text(f"DELETE FROM {self.table} WHERE day = :day"), {"day": day})


def main(day):
    frame = Extract().run(day)
    Load("sales").run(frame)


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
