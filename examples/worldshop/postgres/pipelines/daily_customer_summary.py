"""PostgreSQL -> Spark -> PostgreSQL: what each customer bought on a day."""

from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, task


@task(
    "postgres:shop.daily_customer_summary",
    scope=Daily("order_date", start="2026-06-01"),
    inputs={"orders": read("postgres:shop.orders", by="order_date")},
    write=replace(),
    audits=[audit.unique("order_date", "customer_id"), audit.rows(at_least=1)],
)
def daily_customer_summary(orders):
    return orders.groupBy("order_date", "customer_id").agg(
        F.count("*").alias("orders"), F.sum("amount").alias("revenue")
    )
