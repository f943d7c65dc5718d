"""Every product as it is now, as people write it first: MERGE, and whatever comes wins.

    python -m naive.dim_products --date 2026-06-09

**The incident: the price that went back.** Monday's run had failed half-way and was repeated on Wednesday, as a repair.
It merged Monday's prices over Tuesday's, and the shop sold at old prices for a day. A product that changed twice in one
day got either of its two prices, another one on another run.

Why: a MERGE without a look at the stamps lets an old row overwrite a newer one, and `dropDuplicates` keeps any row.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command


def dim_products(spark: SparkSession, warehouse: Path, day: str) -> None:
    target = warehouse / "naive" / "dim_products"
    if not target.exists():
        catalogue = spark.read.format("delta").load(str(warehouse / "shop" / "products"))
        catalogue.write.format("delta").save(str(target))
    changes = spark.read.format("delta").load(str(warehouse / "shop" / "product_changes"))
    changes = changes.where(F.col("change_date") == day).drop("change_date").dropDuplicates(["product_id"])
    changes.createOrReplaceTempView("changes")
    spark.sql(
        f"""
        MERGE INTO delta.`{target}` t USING changes s ON t.product_id = s.product_id
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
        """
    )


if __name__ == "__main__":
    command.main(dim_products)
