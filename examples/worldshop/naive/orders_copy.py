"""A copy of the orders, as people write it first: what is newer than the newest row we have, appended.

    python -m naive.orders_copy --date 2026-06-09

**The incident: the orders that never arrived.** Support found orders that customers had paid for and the warehouse did
not have. Some had the very second of the newest row that was copied the night before; others were on their way when
the job looked, with a stamp from before it. Both are behind the mark, and a mark that only looks forward never sees
them again. And every order that changed is there twice: appended once as it was, once as it is.

Why: `>` leaves out the rows of the mark's own stamp, the newest stamp says nothing about rows that come late, and an
append cannot update.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naive import command


def orders_copy(spark: SparkSession, warehouse: Path, day: str) -> None:
    orders = spark.read.format("delta").load(str(warehouse / "shop" / "orders")).where(F.col("order_date") <= day)
    copy = warehouse / "naive" / "orders_copy"
    if copy.exists():
        newest = spark.read.format("delta").load(str(copy)).agg(F.max("updated_at")).collect()[0][0]
        orders = orders.where(F.col("updated_at") > newest)
    orders.write.format("delta").mode("append").save(str(copy))


if __name__ == "__main__":
    command.main(orders_copy)
