"""What each customer ordered on a day, as people write it first: overwrite, partitioned by day.

    python -m naive.daily_customer_summary --date 2026-06-09

**The incident: the year that was gone.** Overwriting looked like the safe choice: run it again, get the same rows. The
first night it ran for its second day, it replaced the first. Nobody noticed until the yearly report had one day in it.

Why: on a partitioned table `overwrite` replaces **all** partitions, not those it writes, unless a setting of the
session says otherwise. With that setting a day whose orders were all cancelled keeps its old rows.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command


def daily_customer_summary(spark: SparkSession, warehouse: Path, day: str) -> None:
    orders = spark.read.format("delta").load(str(warehouse / "shop" / "orders")).where(F.col("order_date") == day)
    summary = orders.groupBy("order_date", "customer_id").agg(
        F.count("*").alias("orders"),
        F.sum("amount_usd").alias("revenue"),
        F.max("amount_usd").alias("largest_order"),
    )
    target = str(warehouse / "naive" / "daily_customer_summary")
    summary.write.format("delta").mode("overwrite").partitionBy("order_date").save(target)


if __name__ == "__main__":
    command.main(daily_customer_summary)
