"""A writer used by several jobs."""
from pyspark.sql import DataFrame


def save(df: DataFrame, table: str, mode: str = "append", partitions=None) -> None:
    writer = df.write.format("delta").mode(mode)
    if partitions:
        writer = writer.partitionBy(*partitions)
    writer.saveAsTable(table)


def nightly(spark, day):
    totals = spark.table("core.sales").where(f"day = '{day}'").groupBy("day", "shop").sum("amount")
    save(totals, "mart.sales_daily")
