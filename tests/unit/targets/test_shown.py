"""How values are shown in messages."""

from __future__ import annotations

from twice.core.ports import Column
from twice.targets.delta.internal.in_place import readable

COLUMNS = (Column("order_date", "date"), Column("event_hour", "timestamp"), Column("n", "bigint"))


def test_days_and_microseconds_since_1970_are_shown_as_dates_and_times() -> None:
    assert readable("- order_date : 20613", COLUMNS) == "- order_date : 2026-06-09"
    hour = "- event_hour : 1780981200000000 - n : 20613"
    assert readable(hour, COLUMNS) == "- event_hour : 2026-06-09 05:00:00.000000 UTC - n : 20613"
    assert readable("- order_date : -1", COLUMNS) == "- order_date : 1969-12-31"


def test_what_is_no_number_or_no_column_stays_as_it_is() -> None:
    for text in ("- order_date : null", "- other : 20613", "- order_date : 20613.5", ""):
        assert readable(text, COLUMNS) == text


def test_a_number_that_no_date_and_no_time_can_be_stays_as_it_is() -> None:
    """What is shown is part of a refusal: it must not become another error."""
    for text in ("- order_date : 3000000", "- order_date : -800000", "- event_hour : 999999999999999999"):
        assert readable(text, COLUMNS) == text
    beyond = "- order_date : 99999999999999999999 - n : 1"
    assert readable(beyond, COLUMNS) == beyond
