"""What came into and left the warehouses, as people write it first: a new id for each row, merged on that id.

    python -m naive.daily_inventory_adjustments --date 2026-06-09

**The incident: the pallet that was booked twice.** "It is a MERGE on the transaction's id, so it may run twice."
It ran twice, and every delivery of the day was booked twice; the auditor could not match one id to last week's report.

Why: `uuid()` gives the same adjustment another id on every run, so nothing ever matches. An id protects only if it
comes from the thing it names.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command


def daily_inventory_adjustments(spark: SparkSession, warehouse: Path, day: str) -> None:
    movements = spark.read.format("delta").load(str(warehouse / "shop" / "stock_movements"))
    adjustments = movements.where(F.col("movement_date") == day).withColumn("txn_id", F.expr("uuid()"))
    target = warehouse / "naive" / "daily_inventory_adjustments"
    if not target.exists():
        spark.createDataFrame([], adjustments.schema).write.format("delta").save(str(target))
    adjustments.createOrReplaceTempView("adjustments")
    spark.sql(
        f"""
        MERGE INTO delta.`{target}` t USING adjustments s ON t.txn_id = s.txn_id
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
        """
    )


if __name__ == "__main__":
    command.main(daily_inventory_adjustments)
