import pandas as pd
from dagster import AssetExecutionContext, DailyPartitionsDefinition, asset

from .resources import warehouse

daily = DailyPartitionsDefinition(start_date="2024-01-01")


@asset(partitions_def=daily)
def raw_signups(context: AssetExecutionContext) -> pd.DataFrame:
    day = context.partition_key
    return pd.read_parquet(f"s3://lake/signups/{day}.parquet")


@asset(partitions_def=daily)
def signups(context: AssetExecutionContext, raw_signups: pd.DataFrame) -> None:
    day = context.partition_key
    with warehouse().begin() as conn:
        conn.exec_driver_sql("DELETE FROM mart.signups WHERE day = %s", (day,))
        raw_signups.assign(day=day).to_sql("signups", conn, schema="mart", if_exists="append", index=False)


@asset
def signup_totals(context: AssetExecutionContext) -> None:
    engine = warehouse()
    with engine.connect() as conn:
        total = pd.read_sql("SELECT count(*) AS n FROM mart.signups", conn)
    total["measured_at"] = pd.Timestamp.now()
    total.to_sql("signup_totals", engine, schema="mart", if_exists="append", index=False)
