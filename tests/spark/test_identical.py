"""`assert_identical`: what counts as the same, and what it says if it is not."""

from __future__ import annotations

from typing import Any

import pytest

from twice import assert_identical

SCHEMA = "id BIGINT, name STRING"


def test_the_order_of_rows_and_of_columns_does_not_count(session: Any) -> None:
    left = session.createDataFrame([(1, "a"), (2, None)], SCHEMA)
    right = session.createDataFrame([(None, 2), ("a", 1)], "NAME STRING, id BIGINT")
    assert_identical(left, right)


def test_maps_are_compared_by_their_content(session: Any) -> None:
    left = session.sql("SELECT map('a', 1, 'b', 2) AS m, array(1, NULL) AS l")
    assert_identical(left, session.sql("SELECT map('b', 2, 'a', 1) AS m, array(1, NULL) AS l"))
    with pytest.raises(AssertionError, match="1 row differs in m"):
        assert_identical(left, session.sql("SELECT map('b', 3, 'a', 1) AS m, array(1, NULL) AS l"))


def test_another_value_is_shown_side_by_side_with_the_row_it_stands_in(session: Any) -> None:
    left = session.createDataFrame([(1, "a"), (2, "b")], SCHEMA)
    right = session.createDataFrame([(1, "a"), (2, "B")], SCHEMA)
    with pytest.raises(AssertionError) as caught:
        assert_identical(left, right)
    assert str(caught.value) == "the frames differ: 1 row differs in name\n  name: left b, right B  where id=2"
    assert_identical(left, right, ignore=["name"])


def test_a_row_that_comes_twice_is_a_difference(session: Any) -> None:
    left = session.createDataFrame([(1, "a")], SCHEMA)
    with pytest.raises(AssertionError) as caught:
        assert_identical(left, left.union(left))
    assert (
        str(caught.value)
        == "the frames differ: rows: 1 more in the right frame, 1 of them copies\n  only right: id=1, name=a"
    )


def test_columns_of_another_type_or_missing_are_named_with_both_types(session: Any) -> None:
    left = session.createDataFrame([(1, "a")], SCHEMA)
    with pytest.raises(AssertionError) as caught:
        assert_identical(left, session.createDataFrame([(1,)], "id INT"))
    assert str(caught.value).splitlines()[1:] == [
        "  id: left bigint, right int",
        "  name: left string, right has no such column",
    ]
