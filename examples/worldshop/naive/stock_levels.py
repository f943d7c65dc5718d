"""What each warehouse has, as people write it first: take today's movements and add them to the level.

    python -m naive.stock_levels --date 2026-06-09

**The incident: the shelves that were empty on paper.** The job was run again after a time-out that had not been one. It
added the day's movements a second time. The shop showed products as sold out that lay on the shelf, and ordered more of
them; nothing in the table tells a level that is right from one that is not.

Why: `quantity + moved` gives another result each time it runs. A level can be computed from its movements again and
again; a counter cannot be run twice.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command


def stock_levels(spark: SparkSession, warehouse: Path, day: str) -> None:
    target = warehouse / "naive" / "stock_levels"
    if not target.exists():
        opening = spark.read.format("delta").load(str(warehouse / "shop" / "stock"))
        opening.write.format("delta").save(str(target))
    movements = spark.read.format("delta").load(str(warehouse / "shop" / "stock_movements"))
    today = movements.where(F.col("movement_date") == day).groupBy("product_id", "warehouse")
    today.agg(F.sum("quantity").alias("moved")).createOrReplaceTempView("today")
    spark.sql(
        f"""
        MERGE INTO delta.`{target}` t USING today s ON t.product_id = s.product_id AND t.warehouse = s.warehouse
        WHEN MATCHED THEN UPDATE SET t.quantity = t.quantity + s.moved
        """
    )


if __name__ == "__main__":
    command.main(stock_levels)
