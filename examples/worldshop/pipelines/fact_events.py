"""One row for each click, on the day it happened; audited before anyone sees it."""

from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, task

KINDS = ("view", "search", "add_to_cart", "checkout")


@task(
    "shop.fact_events",
    scope=Daily("event_date", start="2026-01-01", lookback=1),  # clicks arrive up to a day late
    inputs={"raw": read("shop.events_raw", by="event_date")},
    write=replace(),
    audits=[
        audit.unique("event_id"),
        audit.not_null("event_id", "customer_id", "kind"),
        audit.accepted("kind", KINDS),
        audit.rows(at_least=1),
    ],
)
def fact_events(raw):
    first = F.min(F.struct("delivered_at", "event_at", "customer_id", "kind", "product_id", "event_date"))
    return raw.groupBy("event_id").agg(first.alias("first")).select("event_id", "first.*")
