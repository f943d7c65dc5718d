"""A small project on disk: a revenue job, a slow copy, and days of orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_queries import SPARK_TOML

TOML = f'project = "proof"\nlease_seconds = 2\n{SPARK_TOML}'
PIPELINE = """
import os, time
from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, task

@task("shop.revenue", scope=Daily("order_date", start="2026-01-01", batch=True),
      inputs={"orders": read("shop.orders", by="order_date")}, write=replace(),
      audits=[audit.unique("order_date", "region"), audit.not_null("revenue")])
def revenue(orders):
    return orders.groupBy("order_date", "region").agg(F.sum("amount").alias("revenue"))
"""
SLOW = """
import os, time
from pyspark.sql import functions as F
from twice import Daily, read, replace, task

@F.udf("bigint")
def dwell(order_id):
    folder = os.environ.get("TWICE_TEST_DWELL")
    if folder and order_id == 48:
        open(os.path.join(folder, "reached"), "w").close()
        time.sleep(60)
    return order_id

@task("shop.copied", scope=Daily("order_date", start="2026-01-01"),
      inputs={"orders": read("shop.orders", by="order_date")}, write=replace())
def copied(orders):
    return orders.repartition(4, "order_id").withColumn("order_id", dwell("order_id"))
"""


def write_project(root: Path) -> None:
    (root / "pipelines").mkdir(parents=True)
    (root / "twice.toml").write_text(TOML)
    (root / "pipelines" / "revenue.py").write_text(PIPELINE)
    (root / "pipelines" / "copied.py").write_text(SLOW)


def put_orders(spark: Any, root: Path, days: int) -> None:
    """Twenty orders a day from 2026-06-01 on, in three regions; every value comes from the order's number."""
    (
        spark.range(20 * days)
        .selectExpr(
            "id AS order_id",
            f"date_add(DATE'2026-06-01', CAST(id % {days} AS INT)) AS order_date",
            f"element_at(array('EU','US','APAC'), CAST(floor(id / {days}) % 3 + 1 AS INT)) AS region",
            "CAST(id % 97 + 0.25 AS DECIMAL(12,2)) AS amount",
        )
        .coalesce(1)
        .write.format("delta")
        .partitionBy("order_date")
        .save(str(root / "warehouse" / "shop" / "orders"))
    )
