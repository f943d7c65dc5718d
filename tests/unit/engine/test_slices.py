"""Which dates an interval covers, and which columns can be cut. The JVM is asked in tests/spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice.core.local_day import turned_back
from twice.core.names.spark import quoted
from twice.core.ports import Column
from twice.core.scope import Daily, Every, Hourly, Monthly, days, hours
from twice.engine.frames.columns import not_a_frame, refuse_twins
from twice.engine.frames.slices import check_given, check_source, range_of, value_of
from twice.errors import DeclarationError, ResultRefused

DAY = (Column("day", "date"), Column("at", "timestamp"))
ZONES = ["America/New_York", "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo", "Africa/Cairo", "Pacific/Apia"]


@given(st.sampled_from(ZONES), st.dates(date(2012, 1, 1), date(2030, 1, 1)), st.integers(0, 40))
def test_the_dates_before_a_local_day_are_whole_dates_over_every_clock_change(
    zone: str, day: date, before: int
) -> None:
    scope = Daily("at", start="2000-01-01", zone=zone)
    slice_ = scope.slice_at(datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(zone)))
    cut = range_of(DAY, "day", scope.widened(slice_, timedelta(days=before)), slice_.end, zone)
    local = date.fromisoformat(slice_.label)
    if zone != "Pacific/Apia":  # it skipped a whole day once, which no count of hours can follow
        assert (cut.low, cut.high) == (local - timedelta(days=before), local + timedelta(days=1))


def test_an_hour_of_a_date_column_is_refused_with_the_reason() -> None:
    hour = Hourly("at", start="2026-01-01T00").slice_of("2026-01-01T13")
    with pytest.raises(DeclarationError, match="DATE column 'day'.*not whole days.*A date says nothing about the hour"):
        range_of(DAY, "day", hour.start, hour.end, None)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "America/Sao_Paulo"])
@pytest.mark.parametrize("day", ["2018-06-09", "2018-11-04"])  # in Sao Paulo this one begins at 01:00
def test_some_hours_before_a_date_are_refused_in_a_zone_as_without_one(zone: str | None, day: str) -> None:
    """A date says nothing about the hour: two hours of yesterday would be left out without a word."""
    scope = Daily("at", start="2010-01-01", zone=zone)
    slice_ = scope.slice_of(day)
    wanted = date.fromisoformat(day)
    assert range_of(DAY, "day", scope.widened(slice_, days(1)), slice_.end, zone).low == wanted - timedelta(days=1)
    for some in (hours(1), hours(2), hours(25)):
        with pytest.raises(DeclarationError, match="are not whole days"):
            range_of(DAY, "day", scope.widened(slice_, some), slice_.end, zone)


@pytest.mark.parametrize("zone", ["America/St_Johns", "Antarctica/Casey"])
def test_a_derived_day_is_that_of_the_slice_also_where_clocks_were_put_back_over_midnight(zone: str) -> None:
    back = turned_back(zone)
    assert back
    for first, last, day in back:
        for at in (first - timedelta(minutes=1), first, last - timedelta(minutes=1), last):
            for scope in (Daily("at", start="1900-01-01", zone=zone), Monthly("at", start="1900-01", zone=zone)):
                bounds = scope.slice_at(at).bounds
                assert bounds is not None
                assert value_of(scope.held_in, at) == bounds.low, (at, day)


def test_only_where_clocks_were_put_back_over_midnight_a_day_has_two_parts() -> None:
    assert turned_back("Europe/Berlin") == turned_back("America/Havana") == turned_back("America/Sao_Paulo") == ()


def test_a_missing_column_names_those_there_are() -> None:
    with pytest.raises(DeclarationError, match="'nope', which is not there. There are: day, at"):
        range_of(DAY, "nope", datetime.now(timezone.utc), datetime.now(timezone.utc), None)


def test_a_name_in_another_case_is_the_same_column() -> None:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert range_of(DAY, "AT", start, start + timedelta(hours=1), None).column == "at"


@given(
    st.sampled_from(
        [
            Hourly("at", start="1900-01-01T00"),
            Every("at", start="1900-01-01T00:00", minutes=20),
            Daily("at", start="1900-01-01", zone="America/New_York"),
            Monthly("at", start="1900-01", zone="Asia/Tokyo"),
        ]
    ),
    st.datetimes(datetime(1901, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc)),
)
def test_a_derived_value_lies_in_the_slice_of_its_instant(scope: Hourly | Daily, at: datetime) -> None:
    bounds = scope.slice_at(at).bounds
    assert bounds is not None
    assert value_of(scope.held_in, at) == bounds.low


def test_a_scope_column_of_another_type_is_refused_with_the_cast() -> None:
    held = Daily("at", start="2026-01-01").held_in
    with pytest.raises(ResultRefused, match=r"'at', which is timestamp and must be date\..*Cast at to DATE"):
        check_source(DAY, held)


def test_a_given_slice_column_of_another_type_is_refused() -> None:
    held = Hourly("at", start="2026-01-01T00").held_in
    with pytest.raises(ResultRefused, match="'at_hour' is string; the slice column of that name is timestamp"):
        check_given((*DAY, Column(held.name, "string")), held)
    assert check_given(DAY, held) is None


def test_two_columns_that_differ_only_by_case_are_refused() -> None:
    with pytest.raises(ResultRefused, match="more than one column named 'ID'"):
        refuse_twins([Column("id", "int"), Column("ID", "int")])


def test_names_are_quoted_whatever_is_in_them() -> None:
    assert quoted("a.b`c") == "`a.b``c`"


def test_what_a_function_returned_instead_of_a_frame_is_named() -> None:
    assert "returned nothing" in str(not_a_frame(None))
    assert "returned a int" in str(not_a_frame(1))
    assert "a decimal Decimal" in str(not_a_frame(__import__("decimal").Decimal(1)))
