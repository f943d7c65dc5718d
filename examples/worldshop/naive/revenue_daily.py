"""Revenue by day and region, as people write it first: a loop of appends.

    python -m naive.revenue_daily --date 2026-06-09

**The incident: the revenue that was too high.** The job died after its third region; the scheduler started it again, as
it should. The second run appended those three regions once more, exited 0, and the board saw a record day.
No error, no alert: every row in the table is a row the job meant to write.

Why: an append has no memory. What the first run had already written, the second cannot know.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command

REGIONS = ("us", "eu", "uk", "jp", "br")


def revenue_daily(spark: SparkSession, warehouse: Path, day: str) -> None:
    orders = spark.read.format("delta").load(str(warehouse / "shop" / "orders"))
    for region in REGIONS:
        revenue = (
            orders.where((F.col("order_date") == F.lit(day).cast("date")) & (F.col("region") == region))
            .groupBy("order_date", "region")
            .agg(F.count("*").alias("orders"), F.sum("amount_usd").alias("revenue"))
        )
        revenue.write.format("delta").mode("append").save(str(warehouse / "naive" / "revenue_daily"))
        print(f"{day} {region}: appended", flush=True)


if __name__ == "__main__":
    command.main(revenue_daily)
