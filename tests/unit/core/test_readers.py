"""Which slices of a task read what a slice of another one holds: compared with every row there may be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from twice.core.ports import Column
from twice.core.project.graph import reading_slices, values_of
from twice.core.scope import Daily, Every, Hourly, Monthly
from twice.core.slice import Slice
from twice.core.time_scope import TimeScope
from twice.engine.frames.slices import range_of, value_of
from twice.errors import DeclarationError

ZONES = (None, "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Pacific/Auckland", "America/Santiago", "UTC")
STEP = timedelta(minutes=15)
MARGIN = timedelta(days=3)


def scopes() -> st.SearchStrategy[TimeScope]:
    zones = st.sampled_from(ZONES)
    return st.one_of(
        st.builds(lambda zone: Daily("at", start="2026-01-01", zone=zone), zones),
        st.builds(lambda zone: Monthly("at", start="2026-01", zone=zone), zones),
        st.just(Monthly("at", start="2026-01", slice_column="at")),
        st.just(Hourly("at", start="2026-01-01T00")),
        st.sampled_from([Every("at", start="2026-01-01T00:00", minutes=minutes) for minutes in (15, 30, 360)]),
    )


def rows_of(scope: TimeScope, slice_: Slice, column: str) -> Iterator[date | datetime | None]:
    """The values in a column of every row that the slice may own, one for each quarter of an hour."""
    held, at = scope.held_in, slice_.start
    while at < slice_.end:
        source: date | datetime = at.date() if held.source_type == "date" else at
        yield source if column == held.source else value_of(held, source)
        at += STEP


def brute_force(below: TimeScope, values: set[date | datetime | None], type_: str, before: timedelta) -> set[str]:
    """Every slice anywhere near, cut as its run cuts."""
    instants = sorted(
        each if isinstance(each, datetime) else datetime(each.year, each.month, each.day, tzinfo=timezone.utc)
        for each in values
        if each is not None
    )
    first = max(below.slice_at(instants[0] - MARGIN), below.first)
    last = below.slice_at(instants[-1] + before + MARGIN)
    found = set()
    for slice_ in below.through(first, last):
        start = below.widened(slice_, before)
        cut = range_of([Column("by", type_)], "by", start, slice_.end, below.zone)
        if any(each is not None and cut.low <= each < cut.high for each in values):
            found.add(slice_.label)
    return found


@given(
    up=scopes(),
    below=scopes(),
    day=st.dates(date(2026, 2, 15), date(2026, 4, 15)) | st.dates(date(2026, 10, 15), date(2026, 11, 15)),
    hour=st.integers(0, 23),
    derived=st.booleans(),
    before=st.sampled_from([timedelta(0), timedelta(hours=5), timedelta(days=1), timedelta(days=7)]),
)
def test_the_slices_that_read_a_slice_are_those_that_read_one_of_its_rows(
    up: TimeScope, below: TimeScope, day: date, hour: int, derived: bool, before: timedelta
) -> None:
    held = up.held_in
    column = held.name if derived else held.source
    type_ = held.type if derived else held.source_type
    slice_ = up.slice_at(datetime(day.year, day.month, day.day, hour, tzinfo=timezone.utc))
    values = values_of(up, slice_, column)
    assert values is not None
    rows = set(rows_of(up, slice_, column))
    try:
        wanted = brute_force(below, rows, type_, before)
    except DeclarationError:
        assume(False)
    assert {each.label for each in reading_slices(below, values, before)} == wanted


def test_a_day_of_new_york_is_read_by_its_date_with_one_day_and_by_its_instants_with_two() -> None:
    up = Daily("pickup_at", start="2026-01-01", zone="America/New_York")
    below = Daily("local_date", start="2026-01-01")
    slice_ = up.slice_of("2026-06-09")
    by_date, by_instant = values_of(up, slice_, "local_day"), values_of(up, slice_, "PICKUP_AT")
    assert by_date is not None and by_instant is not None
    assert [each.label for each in reading_slices(below, by_date, timedelta(0))] == ["2026-06-09"]
    assert [each.label for each in reading_slices(below, by_instant, timedelta(0))] == ["2026-06-09", "2026-06-10"]


def test_a_month_that_is_named_by_its_first_day_is_read_with_that_day_alone() -> None:
    up, below = Monthly("order_date", start="2026-01"), Daily("day", start="2026-01-01")
    month = up.slice_of("2026-02")
    by_month, by_day = values_of(up, month, "order_month"), values_of(up, month, "order_date")
    assert by_month is not None and by_day is not None
    assert [each.label for each in reading_slices(below, by_month, timedelta(0))] == ["2026-02-01"]
    assert len(reading_slices(below, by_day, timedelta(0))) == 28


def test_a_column_of_its_own_says_nothing_about_the_slice() -> None:
    up = Daily("order_date", start="2026-01-01")
    assert values_of(up, up.slice_of("2026-06-09"), "shipped_on") is None


def test_hours_cannot_be_read_by_a_date() -> None:
    up, below = Daily("order_date", start="2026-01-01"), Hourly("at", start="2026-01-01T00")
    values = values_of(up, up.slice_of("2026-06-09"), "order_date")
    assert values is not None
    assert reading_slices(below, values, timedelta(0)) == ()


def test_no_slice_before_the_readers_first_is_reached() -> None:
    up, below = Daily("d", start="2026-01-01"), Daily("d", start="2026-06-10")
    values = values_of(up, up.slice_of("2026-06-09"), "d")
    assert values is not None
    assert reading_slices(below, values, timedelta(0)) == ()
    assert [each.label for each in reading_slices(below, values, timedelta(days=1))] == ["2026-06-10"]


@pytest.mark.parametrize("text", ["2026-06-09T00:00+02:00", "2026-06-08T22:00:00-04:00"])
def test_a_time_in_a_zone_is_no_date(text: str) -> None:
    from twice.errors import UsageError

    with pytest.raises(UsageError, match=r"dates without one.*--date 2026-06-0[89]\."):
        Daily("order_date", start="2026-01-01").slice_of(text)
    assert Daily("order_date", start="2026-01-01").slice_of("2026-06-09T06:00Z").label == "2026-06-09"
    assert (
        Daily("at", start="2026-01-01", zone="Europe/Berlin").slice_of("2026-06-09T00:00+02:00").label == "2026-06-09"
    )
