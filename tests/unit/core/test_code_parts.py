"""Two records of what a task's code is made of, compared for people."""

from __future__ import annotations

import pytest

from twice.core.ledger.code_parts import CODE_CHANGED, describe_change


@pytest.mark.parametrize(("before", "now"), [({}, {"write=": "1"}), ({"write=": "1"}, {}), ({"write=": "1"},) * 2])
def test_where_no_part_is_known_to_differ_nothing_is_named(before: dict[str, str], now: dict[str, str]) -> None:
    assert describe_change(before, now) == CODE_CHANGED


def test_what_changed_comes_before_what_moved_what_is_new_and_what_is_gone() -> None:
    before = {"write=": "1", "a in x.py": "2", "b in x.py": "3"}
    assert describe_change(before, {"c in x.py": "4", "a in y.py": "2", "write=": "9"}) == (
        "the code changed: write=, a moved from x.py to y.py, and 2 more"
    )
    assert describe_change(before, before | {"c in x.py": "4", "d in x.py": "5"}) == (
        "the code changed: c in x.py is new, d in x.py is new"
    )
    assert describe_change(before, {"write=": "1"}) == "the code changed: a in x.py is gone, b in x.py is gone"


def test_of_two_that_are_alike_neither_is_taken_for_the_moved_one() -> None:
    before = {"write=": "1", "a in x.py": "2", "a in y.py": "2"}
    assert describe_change(before, {"write=": "1", "a in z.py": "2"}) == (
        "the code changed: a in z.py is new, a in x.py is gone, and 1 more"
    )


def test_imports_are_left_out_beside_anything_else() -> None:
    before = {"write=": "1", "import F in x.py": "2"}
    now = {"write=": "1", "import F in x.py": "3"}
    assert describe_change(before, now) == "the code changed: import F in x.py"
    assert describe_change(before, now | {"write=": "9"}) == "the code changed: write="


def test_a_folder_with_the_word_in_it_is_part_of_the_file() -> None:
    before = {"a in work in progress/x.py": "1", "write=": "1"}
    assert describe_change(before, {"a in work in progress/y.py": "1", "write=": "1"}) == (
        "the code changed: a moved from work in progress/x.py to work in progress/y.py"
    )
