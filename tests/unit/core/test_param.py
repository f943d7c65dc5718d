"""Values that are declared: what counts of them, and what is never written down."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice import param
from twice.core.param import picked, value_hash
from twice.errors import DeclarationError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates() | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)

ALIKE = st.recursive(
    st.integers(0, 2) | st.sampled_from(["", "0", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(PLAIN)
def test_the_order_of_a_dict_does_not_count(value: Any) -> None:
    pairs = {"a": value, "b": 1}
    assert value_hash(pairs) == value_hash(dict(reversed(pairs.items())))


@given(ALIKE, ALIKE)
def test_values_have_one_hash_where_they_are_equal(one: Any, other: Any) -> None:
    assert (value_hash(one) == value_hash(other)) == (one == other)


def test_a_number_and_its_text_are_two_values() -> None:
    found = {
        value_hash(value) for value in (1, "1", 1.0, True, Decimal(1), [1], {"1": 1}, date(2026, 1, 1), "2026-01-01")
    }
    assert len(found) == 9


def test_what_cannot_be_compared_is_refused_where_it_is_declared() -> None:
    with pytest.raises(DeclarationError, match="a param holds a object, and only plain values can be compared"):
        param({"client": object()})


def test_a_key_picks_a_part_of_a_file() -> None:
    assert picked({"rates": {"eu": 2}}, "rates.eu") == 2
    with pytest.raises(KeyError):
        picked({"rates": 3}, "rates.eu")


@pytest.mark.parametrize("wrong", ["", "../fx.json"])
def test_a_file_outside_of_the_project_is_no_param(wrong: str) -> None:
    with pytest.raises(DeclarationError, match="names no file of the project"):
        param.json(wrong)
    with pytest.raises(DeclarationError, match="https: locations are not supported yet"):
        param.yaml("https://example.com/fx.yaml")


def test_a_variable_has_a_name() -> None:
    with pytest.raises(DeclarationError, match="names no variable"):
        param.env("")


def test_a_value_is_not_shown() -> None:
    assert "hunter2" not in repr(param("hunter2", secret=True)) + repr(param.env("TOKEN", default="hunter2"))
