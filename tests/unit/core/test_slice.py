"""Which slice owns a value, and how slices are named to people."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from twice.core.scope import Daily
from twice.core.slice import WHOLE, Owners, labels_of

FIRST = date(2026, 1, 1)
SCOPE = Daily("day", start="2026-01-01")
DAYS = list(SCOPE.through(SCOPE.slice_of("2026-01-01"), SCOPE.slice_of("2026-02-28")))


@given(st.sets(st.integers(0, 58)), st.integers(-3, 62))
def test_a_value_belongs_to_the_slice_that_contains_it_and_to_no_other(picked: set[int], at: int) -> None:
    slices = [DAYS[index] for index in picked]
    value = FIRST + timedelta(days=at)
    expected = [slice_ for slice_ in slices if slice_.bounds is not None and slice_.bounds.contain(value)]
    assert Owners(slices).of(value) == (expected[0] if expected else None)


def test_no_slice_owns_null_and_the_whole_table_is_asked_for_otherwise() -> None:
    assert Owners(DAYS).of(None) is None
    assert Owners([WHOLE]).of(FIRST) is None


def test_many_slices_are_named_by_their_ends() -> None:
    assert labels_of(DAYS[:3]) == "2026-01-01, 2026-01-02, 2026-01-03"
    assert labels_of(DAYS) == "2026-01-01 to 2026-02-28 (59 slices)"
