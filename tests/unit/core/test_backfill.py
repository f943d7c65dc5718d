"""Backfill plans, pure: which slices follow each other, how batches are cut, which slices read which."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice.core.backfill.plan import (
    LARGEST_BATCH,
    BackfillRequest,
    PlannedSlice,
    batch_size,
    halves,
    neighbours,
    parse_batch,
    parse_only,
)
from twice.core.scope import Daily, Hourly, Monthly, days, hours
from twice.errors import UsageError

UTC = timezone.utc
DAYS = Daily("order_date", start="2024-01-01")
YEAR = list(DAYS.through(DAYS.slice_of("2024-01-01"), DAYS.slice_of("2024-12-31")))
ZONES = st.sampled_from([None, "America/New_York", "Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe"])


@given(st.sets(st.integers(0, 365)), st.integers(1, 50))
def test_batches_hold_each_slice_once_and_only_slices_that_follow_each_other(picked: set[int], most: int) -> None:
    chosen = [YEAR[at] for at in picked]
    groups = neighbours(chosen, most)
    assert [slice_ for group in groups for slice_ in group] == sorted(chosen)
    for group in groups:
        assert 1 <= len(group) <= most
        assert all(before.end == after.start for before, after in pairwise(group))


def test_a_leap_day_and_a_month_end_do_not_part_a_batch() -> None:
    labels = [[slice_.label for slice_ in group] for group in neighbours(YEAR[57:62], 10)]
    assert labels == [["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]]


def test_days_of_23_and_25_hours_follow_each_other_too() -> None:
    scope = Daily("created_at", start="2026-01-01", zone="America/New_York")
    days_ = list(scope.through(scope.slice_of("2026-03-07"), scope.slice_of("2026-11-02")))
    assert len(neighbours(days_, 1000)) == 1
    assert {(day.end - day.start) // timedelta(hours=1) for day in days_} == {23, 24, 25}


@given(st.integers(1, 400))
def test_halves_are_the_whole_again_and_get_smaller(count: int) -> None:
    slices = [PlannedSlice(str(at), "missing", "") for at in range(count)]
    parts = halves(slices)
    assert [slice_ for part in parts for slice_ in part] == slices
    assert count == 1 or all(len(part) < count for part in parts)


@pytest.mark.parametrize(
    ("asked", "rows", "size"),
    [
        ("off", 10.0, 1),
        (7, 10.0, 7),
        ("auto", None, 30),
        ("auto", 0.0, LARGEST_BATCH),
        ("auto", 2_000.0, LARGEST_BATCH),
        ("auto", 100_000.0, 20),
        ("auto", 50_000_000.0, 1),
    ],
)
def test_auto_chooses_the_batch_from_the_rows_of_a_slice(asked: object, rows: float | None, size: int) -> None:
    assert batch_size(asked, rows) == size  # type: ignore[arg-type]


def test_only_is_read_in_any_order_and_refuses_what_it_does_not_know() -> None:
    assert parse_only("stale, missing") == ("missing", "stale")
    choices = "missing, failed, stale, published"
    with pytest.raises(UsageError, match=rf"'mising' cannot be chosen. Choose from: {choices}"):
        parse_only("mising")
    with pytest.raises(UsageError, match="--batch 0 is not a valid number of slices"):
        parse_batch("0")


def test_a_request_survives_its_way_through_the_ledger() -> None:
    request = BackfillRequest("revenue", "2026-01-01", "2026-12-31", only=("stale",), batch=30, restate=True)
    assert BackfillRequest.from_data(request.to_data()) == request


@given(ZONES, st.integers(0, 400), st.integers(0, 9))
def test_a_month_reads_a_day_exactly_if_they_overlap(zone: str | None, at: int, before: int) -> None:
    day_scope = Daily("at", start="2024-01-01", zone=zone)
    months = Monthly("at", start="2024-01-01", zone=zone)
    day = day_scope.slice_at(datetime(2024, 1, 5, 12, tzinfo=UTC) + timedelta(days=at))
    found = set(months.reading(day.start, day.end, days(before)))
    everything = months.through(months.slice_of("2024-01"), months.slice_of("2025-12"))
    assert found == {m for m in everything if months.widened(m, days(before)) < day.end and m.end > day.start}


@given(st.integers(0, 24 * 60), st.integers(0, 30))
def test_an_hour_is_read_by_its_day_and_by_the_hours_that_look_back_to_it(at: int, before: int) -> None:
    scope = Hourly("event_at", start="2026-03-01T00")
    hour = scope.slice_at(datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=at))
    readers = scope.reading(hour.start, hour.end, hours(before))
    assert [reader.start for reader in readers] == [hour.start + timedelta(hours=n) for n in range(before + 1)]
    (day,) = Daily("event_at", start="2026-03-01", zone="UTC").reading(hour.start, hour.end, timedelta(0))
    assert day.start <= hour.start < day.end


def test_what_lies_before_a_tasks_start_is_read_by_nothing() -> None:
    scope = Monthly("order_date", start="2026-03")
    day = Daily("order_date", start="2026-01-01").slice_of("2026-01-15")
    assert scope.reading(day.start, day.end, timedelta(0)) == ()
