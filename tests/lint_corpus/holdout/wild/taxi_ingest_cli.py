#!/usr/bin/env python
import argparse
import os
from time import time

import pandas as pd
from sqlalchemy import create_engine


def main(params):
    csv_name = "output.csv"
    os.system(f"wget {params.url} -O {csv_name}")
    engine = create_engine(f"postgresql://{params.user}:{params.password}@{params.host}:{params.port}/{params.db}")
    df_iter = pd.read_csv(csv_name, iterator=True, chunksize=100000)
    df = next(df_iter)
    df.pickup = pd.to_datetime(df.pickup)
    df.head(n=0).to_sql(name=params.table_name, con=engine, if_exists="replace")
    df.to_sql(name=params.table_name, con=engine, if_exists="append")
    while True:
        try:
            t_start = time()
            df = next(df_iter)
            df.pickup = pd.to_datetime(df.pickup)
            df.to_sql(name=params.table_name, con=engine, if_exists="append")
            print("inserted another chunk, took %.3f second" % (time() - t_start))
        except StopIteration:
            print("finished")
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Ingest CSV data to Postgres")
    for name in ("user", "password", "host", "port", "db", "table_name", "url"):
        parser.add_argument("--" + name, required=True)
    main(parser.parse_args())
