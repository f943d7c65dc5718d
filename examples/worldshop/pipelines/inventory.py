"""Stock: every adjustment is a row with an id of its own, and the level is their sum. Nothing is counted down."""

from pyspark.sql import functions as F
from twice import Daily, Whole, audit, read, replace, surrogate_key, task


@task(
    "shop.daily_inventory_adjustments",
    scope=Daily("adjustment_date", start="2026-01-01"),
    inputs={
        "movements": read("shop.stock_movements", by="movement_date"),
        "lines": read("shop.order_lines", by="order_date"),
        "orders": read("shop.orders", by="order_date"),
    },
    write=replace(),
    audits=[audit.unique("txn_id"), audit.not_null("warehouse"), audit.expression("quantity <> 0")],
)
def daily_inventory_adjustments(movements, lines, orders):
    moved = movements.withColumnRenamed("movement_date", "adjustment_date")
    sold = lines.join(orders.select("order_id", F.col("region").alias("warehouse")), "order_id").select(
        F.format_string("O%d", "order_id").alias("document"),
        "line_no",
        "product_id",
        "warehouse",
        F.lit("sale").alias("kind"),
        (-F.col("quantity")).alias("quantity"),
        F.col("order_date").alias("adjustment_date"),
    )
    # The id comes from the paper the adjustment is written on, so it is the same on every run.
    return moved.unionByName(sold).withColumn("txn_id", surrogate_key("document", "line_no"))


@task(
    "shop.stock_levels",
    scope=Whole(),
    inputs={"opening": read("shop.stock"), "adjustments": read("shop.daily_inventory_adjustments")},
    write=replace(),
    audits=[audit.unique("product_id", "warehouse"), audit.not_null("quantity")],
)
def stock_levels(opening, adjustments):
    columns = ("product_id", "warehouse", "quantity")
    return (
        opening.select(*columns)
        .unionByName(adjustments.select(*columns))
        .groupBy("product_id", "warehouse")
        .agg(F.sum("quantity").alias("quantity"))
    )
