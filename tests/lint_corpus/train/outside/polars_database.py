import polars as pl

URI = "postgresql://localhost/dw"


def load(path):
    df = pl.read_csv(path)
    df.write_database("visits", URI, if_table_exists="append")
    df.group_by("page").agg(pl.len()).write_database("pages", URI, if_table_exists="replace")
    df.write_delta("s3://lake/visits", mode="append")
