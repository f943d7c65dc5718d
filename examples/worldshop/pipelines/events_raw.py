"""Every delivery of every click, as it came: a delivery has no key, and is appended once."""

from twice import Daily, append_once, audit, read, task


@task(
    "shop.events_raw",
    scope=Daily("delivered_on", start="2026-01-01"),  # by the day it arrived: a day that is over gets no more rows
    inputs={"events": read("shop.events", by="delivered_on")},
    write=append_once(),
    audits=[audit.rows(at_least=1)],
)
def events_raw(events):
    return events
