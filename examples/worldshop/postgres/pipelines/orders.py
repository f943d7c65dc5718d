"""PostgreSQL -> Spark -> Delta: what changed since the last time, merged by its key."""

from twice import Since, audit, merge, read, task


@task(
    "shop.orders",
    scope=Since("updated_at", initial="2026-01-01T00:00:00Z"),
    inputs={"changes": read("postgres:shop.orders", by="updated_at")},
    write=merge("order_id", newest_by="updated_at"),
    audits=[audit.not_null("order_id", "amount")],
)
def orders(changes):
    return changes
