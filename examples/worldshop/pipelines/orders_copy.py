"""A copy of the shop's orders that follows every change, without reading all of them each time."""

from twice import Since, audit, hours, merge, read, task


@task(
    "shop.orders_copy",
    scope=Since("updated_at", initial="2026-01-01T00:00:00Z", lag=hours(2)),  # a change is up to two hours on its way
    inputs={"orders": read("shop.orders", by="updated_at")},
    write=merge("order_id", newest_by="updated_at"),
    audits=[audit.not_null("order_date", "amount")],
)
def orders_copy(orders):  # the rows from the mark on
    return orders
