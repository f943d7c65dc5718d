from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from twice.core.scope import Daily, Every, Hourly, Monthly
from twice.core.time_scope import TimeScope
from twice.errors import DeclarationError, LayoutDiffers
from twice.targets.grain import check_grain, check_partitioning, check_values, partition_grain, slice_value

DAILY = Daily("d", start="2026-01-01")
BERLIN = Daily("at", start="2026-01-01", zone="Europe/Berlin")
MONTHLY = Monthly("d", start="2026-01")
DAYS_OF_MONTHS = Monthly("d", start="2026-01", slice_column="d")
HOURLY = Hourly("at", start="2026-01-01T00")
QUARTERS = Every("at", start="2026-01-01T00:00", minutes=15)


@pytest.mark.parametrize(
    ("scope", "mark"),
    [
        (DAILY, "day"),
        (BERLIN, "day@Europe/Berlin"),
        (MONTHLY, "month"),
        (DAYS_OF_MONTHS, "day"),
        (HOURLY, "hour"),
        (QUARTERS, "window/15"),
    ],
)
def test_a_table_remembers_the_grain_of_its_partitions(scope: TimeScope, mark: str) -> None:
    assert partition_grain(scope.held_in) == mark
    check_grain("t", mark, scope.held_in)
    check_grain("t", None, scope.held_in)


@pytest.mark.parametrize(
    ("recorded", "scope"),
    [
        ("month", DAILY),
        ("hour", QUARTERS),
        ("day@Europe/Berlin", DAILY),
        ("day@America/New_York", BERLIN),
        ("day", MONTHLY),
        ("window/30", Every("window_start", start="2026-01-01T00:00", minutes=20)),
    ],
)
def test_slices_that_are_not_made_of_whole_partitions_are_refused(recorded: str, scope: TimeScope) -> None:
    with pytest.raises(DeclarationError, match="holds one partition per"):
        check_grain("t", recorded, scope.held_in)


def test_an_hour_is_made_of_quarters_when_the_scope_says_so() -> None:
    scope = Hourly("window_start", start="2026-01-01T00", slice_column="window_start")
    check_grain("t", "window/15", scope.held_in)
    quarter = datetime(2026, 6, 9, 13, 15, tzinfo=timezone.utc)
    check_values("t", "window/15", [quarter], scope.held_in)
    with pytest.raises(DeclarationError, match="between two boundaries"):
        check_values("t", "window/15", [quarter.replace(minute=20)], scope.held_in)


def test_every_partition_value_must_lie_on_a_label_boundary() -> None:
    check_values("t", None, [date(2026, 6, 9), None], DAILY.held_in)
    check_values("t", None, [date(2026, 6, 1)], MONTHLY.held_in)
    check_values("t", None, [date(2026, 6, 9)], DAYS_OF_MONTHS.held_in)
    with pytest.raises(DeclarationError, match="d_month = 2026-06-09, between two boundaries of a month"):
        check_values("t", None, [date(2026, 6, 1), date(2026, 6, 9)], MONTHLY.held_in)
    with pytest.raises(DeclarationError, match="13:30:00.*, between two boundaries"):
        check_values("t", None, [datetime(2026, 6, 9, 13, 30, tzinfo=timezone.utc)], HOURLY.held_in)


def test_the_slice_column_is_among_those_that_a_table_is_partitioned_by() -> None:
    check_partitioning("t", ["D"], DAILY.held_in)
    check_partitioning("t", ["region", "D"], DAILY.held_in)
    check_partitioning("t", [], None)
    for columns, wanted in (([], DAILY.held_in), (["other"], DAILY.held_in), (["d"], None)):
        with pytest.raises(LayoutDiffers, match="t is (partitioned by|not partitioned)"):
            check_partitioning("t", columns, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "2026-06-09T13:00:00.000000Z",
        "2026-06-09T13:00:00Z",
        "2026-06-09 13:00:00",
        "2026-06-09 13:00:00.0",
        "2026-06-09T15:00:00+02:00",
    ],
)
def test_timestamps_are_utc_instants_however_they_are_spelled(text: str) -> None:
    assert slice_value(text, "timestamp") == datetime(2026, 6, 9, 13, tzinfo=timezone.utc)


def test_a_missing_value_is_null() -> None:
    assert slice_value(None, "date") is None
    assert slice_value("", "date") is None
    with pytest.raises(ValueError, match="isoformat"):
        slice_value("__HIVE_DEFAULT_PARTITION__", "date")
