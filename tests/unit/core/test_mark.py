"""A mark as a number: absolute, and saying of itself what it counts."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice.core.since import CursorValue, Window, type_of
from twice.core.table.mark import counted_from, kind_of, mark_in, mark_of, version_cell, version_of, version_text
from twice.errors import UsageError

UTC = timezone.utc
NUMBERS = st.integers(-(2**61), 2**62 - 1)
INSTANTS = st.datetimes(timezones=st.just(UTC))
MARKS = st.one_of(NUMBERS, st.dates(), INSTANTS)


@given(MARKS)
def test_a_version_says_its_mark_and_its_kind_without_any_declaration(mark: CursorValue) -> None:
    version = version_of(mark)
    assert 0 < version < 2**63
    assert (kind_of(version), mark_of(version)) == (type_of(mark), mark)


@given(st.one_of(*(st.tuples(marks, marks) for marks in (NUMBERS, st.dates(), INSTANTS))))
def test_a_later_mark_has_a_greater_version(pair: tuple[CursorValue, CursorValue]) -> None:
    first, second = pair
    assert (version_of(first) < version_of(second)) == (first < second)  # type: ignore[operator]


@given(MARKS)
def test_what_was_counted_from_an_initial_is_below_every_mark_that_says_itself(mark: CursorValue) -> None:
    longest = (datetime.max - datetime.min) // (datetime.resolution) + 1
    assert kind_of(longest) is None
    assert version_of(mark) > longest


@pytest.mark.parametrize("number", [-(2**61) - 1, 2**62])
def test_a_number_beyond_what_a_version_can_hold_is_refused(number: int) -> None:
    with pytest.raises(UsageError, match="too far from 0"):
        version_of(number)


@pytest.mark.parametrize("low", [-3, date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("closed", [True, False])
def test_the_reason_of_an_attempt_names_the_mark_it_moved_to(low: CursorValue, closed: bool) -> None:
    high = counted_from(low, 1_700_000_000 if isinstance(low, (int, datetime)) else 90)
    assert mark_in(f"rows of {Window(low, high, closed)}") == high


def test_a_reset_reports_the_mark_it_moved_to() -> None:
    assert mark_in("mark reset from 2026-06-09 to 2026-06-01 by ada: to make it right") == date(2026, 6, 1)
    assert mark_in("never published") is None
    assert mark_in(None) is None


def test_people_read_a_mark_and_not_a_number_of_nineteen_digits() -> None:
    assert version_text(version_of(date(2026, 6, 9))) == "mark 2026-06-09"
    assert version_text(3) == "generation 3"
    assert (version_cell(version_of(date(2026, 6, 9))), version_cell(3)) == ("2026-06-09", 3)
