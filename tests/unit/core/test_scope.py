"""Slices cover time exactly once, in every zone and over every clock change."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twice.core.scope import Daily, Every, Hourly, Monthly, Whole, days, hours, refuse_no_date, slice_named
from twice.core.since import Since
from twice.core.slice import WHOLE
from twice.core.time_scope import TimeScope
from twice.errors import BeforeStart, DeclarationError, Hint, UsageError

UTC = timezone.utc
ZONES = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(("Etc/", "SystemV/")))

instants = st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)).map(lambda d: d.replace(tzinfo=UTC))
zones = st.none() | st.sampled_from(ZONES)
scopes: st.SearchStrategy[TimeScope] = st.one_of(
    st.builds(lambda zone: Daily("at", start="1980-01-01", zone=zone), zones),
    st.builds(lambda zone: Monthly("at", start="1980-01", zone=zone), zones),
    st.just(Hourly("at", start="1980-01-01T00")),
    st.builds(
        lambda minutes: Every("at", start="1980-01-01T00:00", minutes=minutes),
        st.sampled_from([1, 5, 15, 20, 45, 90, 360, 1440]),
    ),
)


@given(scopes, instants)
def test_the_slice_at_an_instant_contains_it(scope: TimeScope, instant: datetime) -> None:
    found = scope.slice_at(instant)
    assert found.start <= instant < found.end


@settings(max_examples=60)
@given(scopes, instants, st.integers(1, 70))
def test_slices_cover_a_range_exactly_once_and_in_order(scope: TimeScope, instant: datetime, count: int) -> None:
    first = scope.slice_at(instant)
    last = scope.slice_at(first.start + (first.end - first.start) * count)
    slices = list(scope.through(first, last))
    assert slices[0] == first
    assert slices[-1] == last
    for one, next_ in pairwise(slices):
        assert one.end == next_.start
        assert one < next_
    assert all(one.start < one.end for one in slices)
    assert len({one.label for one in slices}) == len(slices)


@given(scopes, instants)
def test_a_label_names_its_slice(scope: TimeScope, instant: datetime) -> None:
    found = scope.slice_at(instant)
    assert scope.slice_of(found.label) == found
    assert scope.slice_of(found.label).bounds == found.bounds


@given(scopes, instants)
def test_bounds_of_neighbours_meet(scope: TimeScope, instant: datetime) -> None:
    found = scope.slice_at(instant)
    following = scope.slice_at(found.end)
    assert found.bounds is not None
    assert following.bounds is not None
    assert not found.bounds.contain(following.bounds.low)
    assert found.bounds.contain(found.bounds.low)
    assert not found.bounds.contain(None)


@pytest.mark.parametrize(("day", "hours"), [("2026-03-08", 23), ("2026-03-09", 24), ("2026-11-01", 25)])
def test_a_local_day_lasts_23_24_or_25_hours(day: str, hours: int) -> None:
    found = Daily("at", start="2020-01-01", zone="America/New_York").slice_of(day)
    assert found.end - found.start == timedelta(hours=hours)


def test_a_day_whose_midnight_is_skipped_begins_at_the_jump() -> None:
    found = Daily("at", start="2010-01-01", zone="America/Sao_Paulo").slice_of("2018-11-04")
    assert found.start == datetime(2018, 11, 4, 3, tzinfo=UTC)
    assert found.end - found.start == timedelta(hours=23)


def test_a_day_that_a_zone_skipped_is_no_slice() -> None:
    scope = Daily("at", start="2011-01-01", zone="Pacific/Apia")
    labels = [s.label for s in scope.through(scope.slice_of("2011-12-29"), scope.slice_of("2011-12-31"))]
    assert labels == ["2011-12-29", "2011-12-31"]
    with pytest.raises(UsageError, match="does not exist in Pacific/Apia"):
        scope.slice_of("2011-12-30")


def test_a_skipped_day_is_covered_by_nothing_and_that_is_reported() -> None:
    scope = Daily("at", start="2011-01-01", zone="Pacific/Apia")
    with pytest.raises(UsageError, match="2011-12-30 does not exist in Pacific/Apia: its clocks skipped it"):
        scope.covering(date(2011, 12, 30))


def test_a_skipped_day_lies_in_its_month_all_the_same() -> None:
    scope = Monthly("at", start="2011-01", zone="Pacific/Apia")
    assert [slice_.label for slice_ in scope.covering(date(2011, 12, 30))] == ["2011-12"]


def test_a_date_column_is_its_own_slice_column_and_others_get_one() -> None:
    assert Daily("order_date", start="2026-01-01").held_in.derived is False
    assert Daily("at", start="2026-01-01", zone="UTC").held_in.name == "local_day"
    assert Hourly("event_at", start="2026-01-01T00").held_in.name == "event_hour"
    assert Monthly("order_date", start="2026-01").held_in.name == "order_month"
    assert Every("at", start="2026-01-01T00:00").held_in.name == "window_start"
    assert Daily("at", start="2026-01-01", zone="UTC", slice_column="day").held_in.name == "day"


def test_a_month_over_daily_partitions_owns_the_range_of_its_days() -> None:
    bounds = Monthly("order_date", start="2026-01", slice_column="order_date").slice_of("2026-02").bounds
    assert bounds is not None
    assert (bounds.column, bounds.low, bounds.high) == ("order_date", date(2026, 2, 1), date(2026, 3, 1))


def test_an_orchestrators_instant_names_the_slice_that_contains_it() -> None:
    scope = Daily("order_date", start="2026-01-01")
    assert scope.slice_of("2026-06-09T02:00:00+00:00").label == "2026-06-09"
    assert scope.slice_of("2026-06-09T02:00:00Z").label == "2026-06-09"


def test_days_before_a_slice_are_days_of_the_calendar_in_its_zone() -> None:
    scope = Daily("at", start="2020-01-01", zone="America/New_York")
    after_the_change = scope.slice_of("2026-03-10")
    assert scope.widened(after_the_change, timedelta(days=7)) == scope.slice_of("2026-03-03").start
    assert scope.widened(after_the_change, timedelta(hours=5)) == after_the_change.start - timedelta(hours=5)
    hourly = Hourly("at", start="2020-01-01T00").slice_of("2026-03-10T13")
    assert Hourly("at", start="2020-01-01T00").widened(hourly, timedelta(days=1)) == hourly.start - timedelta(days=1)


def test_lookback_never_reaches_before_the_start() -> None:
    scope = Daily("order_date", start="2026-01-01", lookback=3)
    assert [s.label for s in scope.earlier(scope.slice_of("2026-01-03"), 3)] == ["2026-01-01", "2026-01-02"]
    assert [s.label for s in scope.earlier(scope.slice_of("2026-03-01"), 2)] == ["2026-02-27", "2026-02-28"]


@pytest.mark.parametrize(
    "text", ["2026-02-30", "2026-6-9", "yesterday", "", "2026-06-09T13", "2026-06", "２０２６-06-09", "2026-06-09\x00"]
)
def test_a_malformed_or_impossible_date_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(UsageError, match="is not a day of this task. Give it as 2026-06-09"):
        Daily("order_date", start="2026-01-01").slice_of(text)


@pytest.mark.parametrize(
    ("scope", "noun"),
    [
        (Hourly("at", start="2026-01-01T00"), "hour"),
        (Every("at", start="2026-01-01T00:00", minutes=15), "window"),
    ],
)
def test_a_day_given_for_a_shorter_slice_is_answered_with_the_ways_to_a_whole_day(scope: Any, noun: str) -> None:
    with pytest.raises(UsageError, match=f"'2026-10-25' is not a {noun} of this task") as refused:
        scope.slice_of("2026-10-25")
    fix = refused.value.fix
    assert fix.endswith(f"All {noun}s of that day: --start 2026-10-25 --end 2026-10-26, or twice backfill.")
    assert isinstance(fix, Hint) and 'interval=("2026-10-25", "2026-10-26")' in fix.python
    with pytest.raises(UsageError, match=r"Give it as 2026-06-09T13(:15)?\.$"):
        scope.slice_of("2026-02-30")


def test_a_date_before_the_start_is_refused_naming_the_start() -> None:
    with pytest.raises(UsageError, match="2025-12-31 is before the task's start, 2026-01-01"):
        Daily("order_date", start="2026-01-01").slice_of("2025-12-31")


def test_an_interval_before_the_start_is_refused_naming_the_start() -> None:
    scope, start = Daily("order_date", start="2026-01-01"), datetime(2025, 12, 31, tzinfo=UTC)
    with pytest.raises(BeforeStart, match="2025-12-31 is before the task's start, 2026-01-01"):
        scope.between(start, start + timedelta(days=2))


def test_no_date_is_refused_because_the_clock_is_never_asked() -> None:
    with pytest.raises(UsageError, match="never taken from the clock"):
        slice_named(Daily("order_date", start="2026-01-01"), None)
    assert slice_named(Whole(), None) == WHOLE
    with pytest.raises(UsageError, match="owns its whole table"):
        slice_named(Whole(), "2026-06-09")


def test_a_zero_width_interval_is_refused_naming_airflow() -> None:
    moment = datetime(2026, 6, 9, tzinfo=UTC)
    with pytest.raises(UsageError, match="Airflow 3"):
        Daily("order_date", start="2026-01-01").between(moment, moment)


def test_an_interval_must_lie_on_slice_boundaries() -> None:
    scope = Daily("order_date", start="2026-01-01")
    start = datetime(2026, 6, 9, tzinfo=UTC)
    assert [s.label for s in scope.between(start, start + timedelta(days=2))] == ["2026-06-09", "2026-06-10"]
    with pytest.raises(UsageError, match="does not begin and end on a day"):
        scope.between(start, start + timedelta(hours=30))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Daily("", start="2026-01-01"), "needs the name of its column"),
        (lambda: Daily("d", start="01.01.2026"), "is not the beginning of a day"),
        (lambda: Monthly("d", start="2026-01-15"), "is not the beginning of a month"),
        (lambda: Daily("d", start="2026-01-01", zone="Mars/Olympus"), "unknown time zone"),
        (lambda: Daily("d", start="2026-01-01", lookback=-1), "lookback=-1 is negative"),
        (lambda: Hourly("at", start="2026-01-01T00", zone="UTC"), "UTC instants"),
        (lambda: Every("at", start="2026-01-01T00:00", minutes=7), "does not divide a day"),
        (lambda: Every("at", start="2026-01-01T00:07", minutes=15), "is not the beginning of a window"),
        (
            lambda: Since("day", initial="2026-01-01", lag=hours(12)),
            "lag=12:00:00 is not a whole number of days, and the",
        ),
        (lambda: Since("day", initial="2026-01-01", lag=hours(36)), r"Write lag=days\(2\)"),
    ],
)
def test_a_scope_that_cannot_work_is_refused_where_it_is_written(make: object, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        make()  # type: ignore[operator]


def test_a_lag_of_whole_days_holds_the_mark_of_dates_back() -> None:
    held = Since("day", initial="2026-01-01", lag=days(2)).held_back(date(2026, 6, 9))
    assert held == date(2026, 6, 7)
    assert Since("day", initial="2026-01-01", lag=hours(48)).held_back(date(2026, 6, 9)) == held


BACK_OVER_MIDNIGHT = ["America/St_Johns", "America/Moncton", "America/Goose_Bay", "Antarctica/Casey"]
"""There the clocks were put back from 00:01 to 23:01 (Casey: from 02:00 to 23:00): the day before has two parts."""


@pytest.mark.parametrize("zone", [*BACK_OVER_MIDNIGHT, "America/Havana", "America/Sao_Paulo"])
def test_every_instant_is_in_exactly_one_slice_also_where_clocks_were_put_back_over_midnight(zone: str) -> None:
    scope = Daily("at", start="1990-01-01", zone=zone)
    noons = [datetime(2006, 1, 1, 12, tzinfo=UTC) + timedelta(days=day) for day in range(5 * 365)]
    changes = [noon for noon, next_ in pairwise(noons) if _offset(noon, zone) != _offset(next_, zone)]
    assert len(changes) >= 2
    around = [noon + timedelta(minutes=30 * step) for noon in changes for step in range(-48, 96)]
    outside = []
    for at in (*noons, *around):
        slice_ = scope.slice_at(at)
        if not slice_.start <= at < slice_.end:
            outside.append((at.isoformat(), slice_.label))
    assert outside == []


def _offset(at: datetime, zone: str) -> timedelta | None:
    return at.astimezone(ZoneInfo(zone)).utcoffset()


def test_a_day_begins_at_the_last_midnight_where_clocks_were_put_back_over_it() -> None:
    newfoundland = Daily("at", start="2000-01-01", zone="America/St_Johns")
    day = newfoundland.slice_of("2006-10-29")
    assert day.start == datetime(2006, 10, 29, 3, 30, tzinfo=UTC)  # at 02:30 it was midnight for the first time
    assert newfoundland.slice_at(datetime(2006, 10, 29, 2, 30, tzinfo=UTC)).label == "2006-10-28"
    assert newfoundland.slice_of("2006-10-28").end == day.start
    # In Havana clocks go back from 01:00 to 00:00: the day has that hour twice, and begins once.
    havana = Daily("at", start="2000-01-01", zone="America/Havana").slice_of("2025-11-02")
    assert havana.end - havana.start == timedelta(hours=25)


@pytest.mark.parametrize(("zone", "day"), [("America/Toronto", "1919-03-31"), ("America/Sao_Paulo", "2018-11-04")])
def test_a_day_whose_midnight_was_jumped_over_begins_at_the_jump(zone: str, day: str) -> None:
    scope = Daily("at", start="1900-01-01", zone=zone)
    found = scope.slice_of(day)
    assert scope.slice_at(found.start) == found
    assert scope.slice_at(found.start - timedelta(microseconds=1)).end == found.start


@pytest.mark.parametrize("day", ["2018-11-04", "2018-11-05", "2019-02-17"])
def test_days_before_a_day_whose_midnight_is_skipped_are_days_of_the_calendar_too(day: str) -> None:
    scope = Daily("at", start="2010-01-01", zone="America/Sao_Paulo")
    earlier = scope.earlier(scope.slice_of(day), 7)
    assert scope.widened(scope.slice_of(day), days(7)) == earlier[0].start


@given(scopes, instants)
def test_what_a_scope_reads_is_never_refused_as_no_date(scope: TimeScope, instant: datetime) -> None:
    refuse_no_date(scope.slice_at(instant).label)
    refuse_no_date(instant.isoformat())
    refuse_no_date(instant.isoformat().replace("-", "").replace(":", ""))


@pytest.mark.parametrize("text", [WHOLE.label, "since"])
def test_the_one_slice_of_a_task_without_dates_is_not_refused_as_no_date(text: str) -> None:
    refuse_no_date(text)


@pytest.mark.parametrize("text", ["", "yesterday", "09.06.2026", "2026-06-31", "2026-13", "2026-02-30T10"])
def test_what_no_scope_reads_is_refused_without_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a date\. Write it like 2026-06-09"):
        refuse_no_date(text)
    for scope in (Daily("at", start="1980-01-01"), Monthly("at", start="1980-01"), Hourly("at", start="1980-01-01T00")):
        with pytest.raises(UsageError):
            slice_named(scope, text)
