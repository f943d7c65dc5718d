#!/usr/bin/env python
import sys
from datetime import datetime

import pandas as pd
from sqlalchemy import create_engine

ENGINE = create_engine("postgresql+psycopg2://etl@localhost/sales")


def read(path):
    frame = pd.read_csv(path, sep=";", decimal=",")
    frame.columns = frame.columns.str.strip().str.lower()
    frame = frame.drop_duplicates(subset=["invoice_no"])
    return frame


def load(path):
    frame = read(path)
    frame["snapshot_date"] = datetime.now().date()
    frame["loaded_at"] = datetime.now()
    frame.to_sql("invoices", ENGINE, if_exists="append", index=False, chunksize=1000)


if __name__ == "__main__":
    for p in sys.argv[1:]:
        print("loading", p)
        try:
            load(p)
        except Exception as e:
            print("error in", p, e)
