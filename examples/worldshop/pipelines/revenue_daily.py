"""Revenue by day and region, in US dollars."""

from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, surrogate_key, task


@task(
    "shop.revenue_daily",
    scope=Daily("order_date", start="2026-01-01"),
    inputs={"orders": read("shop.orders", by="order_date")},
    write=replace(),
    audits=[audit.unique("order_date", "region"), audit.not_null("revenue"), audit.rows(at_least=1)],
)
def revenue_daily(orders):  # pinned to a version and already cut to the slice: no date, no clock
    return (
        orders.groupBy("order_date", "region")
        .agg(F.count("*").alias("orders"), F.sum("amount_usd").alias("revenue"))
        .withColumn("revenue_sk", surrogate_key("order_date", "region"))
    )
