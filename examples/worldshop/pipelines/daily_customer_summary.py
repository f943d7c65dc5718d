"""What each customer ordered on each day."""

from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, task


@task(
    "shop.daily_customer_summary",
    scope=Daily("order_date", start="2026-01-01", lookback=1),  # the copy gets a day's last orders on the next day
    inputs={"orders": read("shop.orders_copy", by="order_date")},
    write=replace(),
    audits=[audit.unique("order_date", "customer_id"), audit.between("orders", 1, 10_000)],
)
def daily_customer_summary(orders):
    return orders.groupBy("order_date", "customer_id").agg(
        F.count("*").alias("orders"),
        F.sum("amount_usd").alias("revenue"),
        F.max("amount_usd").alias("largest_order"),
    )
