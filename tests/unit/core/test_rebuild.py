"""What the tokens of a table and of its side table say is left to do of a rebuild."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice.core.table.rebuild import Filling, fill_number, filled_for, filling, in_range


@given(st.integers(min_value=0, max_value=2**30), st.integers(min_value=0, max_value=2**20 - 1))
def test_a_number_says_for_which_generation_it_was_filled_however_often(generation: int, fills: int) -> None:
    assert filled_for(fill_number(generation) + fills) == generation


def test_what_was_never_filled_was_filled_for_nothing() -> None:
    assert filled_for(0) is None
    assert fill_number(0) > 0


@pytest.mark.parametrize(
    ("published", "filled", "left"),
    [
        ({"a": 1}, {}, Filling(("a",), (), ())),
        ({"a": 1}, {"a": fill_number(1)}, Filling((), (), ("a",))),
        ({"a": 1}, {"a": fill_number(1) + 5}, Filling((), (), ("a",))),
        ({"a": 3}, {"a": fill_number(1)}, Filling((), ("a",), ())),
        ({"a": 1}, {"a": fill_number(2)}, Filling((), (), (), ("a",))),
        ({"a": 1, "b": 2}, {"b": fill_number(2), "c": fill_number(1)}, Filling(("a",), (), ("b",))),
    ],
)
def test_the_two_tables_alone_say_what_is_left(
    published: dict[str, int], filled: dict[str, int], left: Filling
) -> None:
    assert filling(published, filled) == left
    assert left.complete is (left.ready == tuple(sorted(published)))


def test_a_range_includes_both_ends() -> None:
    days = ("2026-06-08", "2026-06-09", "2026-06-10")
    assert in_range(days, "2026-06-09", None) == days[1:]
    assert in_range(days, None, "2026-06-09") == days[:2]
    assert in_range(days, None, None) == days
