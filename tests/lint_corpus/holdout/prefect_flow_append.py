from datetime import datetime, timezone

import polars as pl
from deltalake import write_deltalake
from prefect import flow, task


@task(retries=3, retry_delay_seconds=30)
def load(frame: pl.DataFrame, path: str) -> None:
    write_deltalake(path, frame.to_arrow(), mode="append")


@task
def extract(url: str) -> pl.DataFrame:
    cutoff = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    return pl.read_ndjson(url).filter(pl.col("ts") >= cutoff)


@flow(name="meter readings")
def readings(url: str = "https://meters.example.org/dump.ndjson"):
    load(extract(url), "/lake/readings")


if __name__ == "__main__":
    readings.serve(cron="5 * * * *")
