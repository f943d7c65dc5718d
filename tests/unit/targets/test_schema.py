from __future__ import annotations

import pytest

from twice.core.ports import Column, Shape
from twice.core.schema_change import Widens, drift, fits, more_digits, never, ways_out
from twice.errors import SchemaDrift
from twice.targets.schema import check_fit, check_names, intended


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("int", "bigint"),
        ("tinyint", "int"),
        ("float", "double"),
        ("int", "double"),
        ("smallint", "float"),
        ("int", "decimal(10,0)"),
        ("bigint", "decimal(38,2)"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("varchar(10)", "string"),
        ("void", "array<int>"),
        ("struct<A:int>", "struct<a:int>"),
    ],
)
def test_an_up_cast_fits(given: str, wanted: str) -> None:
    assert fits(given, wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("bigint", "int"),
        ("bigint", "double"),
        ("int", "float"),
        ("double", "float"),
        ("double", "decimal(38,10)"),
        ("decimal(12,2)", "double"),
        ("decimal(12,2)", "decimal(12,4)"),
        ("decimal(12,4)", "decimal(12,2)"),
        ("int", "decimal(9,0)"),
        ("string", "int"),
        ("int", "string"),
        ("date", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("array<int>", "array<bigint>"),
    ],
)
def test_what_could_change_a_value_does_not_fit(given: str, wanted: str) -> None:
    assert not fits(given, wanted)


def test_drift_names_what_is_new_missing_and_retyped() -> None:
    table = Shape((Column("a", "int"), Column("b", "string")))
    found = drift(Shape((Column("A", "bigint"), Column("c", "int"))), table)
    assert found.new == (Column("c", "int"),)
    assert found.missing == (Column("b", "string"),)
    assert found.retyped == ((Column("A", "bigint"), Column("a", "int")),)
    assert not found.only_new


def test_the_message_names_every_column_and_the_way_out() -> None:
    table = Shape((Column("a", "int"), Column("b", "string")))
    with pytest.raises(SchemaDrift) as refused:
        check_fit(Shape((Column("a", "string"), Column("c", "int"))), table)
    text = str(refused.value)
    assert "c (int) is new" in text
    assert "b (string) is missing" in text
    assert "a is string, the table has int" in text
    assert "The table is unchanged." in text
    assert refused.value.rebuild == ("b", "a")


_TABLE = Shape((Column("a", "int"), Column("b", "string"), Column("c", "decimal(10,2)")))


@pytest.mark.parametrize(
    ("result", "widens", "ways"),
    [
        ({"d": "int"}, never, {"d": ("evolve", "d: set evolve=True in the task's policy, and the next run adds it")}),
        ({"b": None}, never, {"b": ("rebuild", "b: give it still, as NULL.")}),
        ({"a": "bigint"}, never, {"a": ("rebuild", "a: cast it to int in the task (the result is wider).")}),
        ({"a": "bigint"}, more_digits, {"a": ("rebuild", "a: cast it to int in the task (the result is wider).")}),
        ({"a": "string"}, never, {"a": ("rebuild", "a: cast it to int in the task (not every value fits).")}),
        ({"c": "decimal(12,2)"}, never, {"c": ("rebuild", "c: cast it to decimal(10,2)")}),
        ({"c": "decimal(12,2)"}, more_digits, {"c": ("evolve", "the next run widens it to decimal(12,2)")}),
        ({"c": "decimal(12,3)"}, more_digits, {"c": ("rebuild", "c: cast it to decimal(10,2)")}),
        ({"c": "decimal(9,2)"}, never, {}),  # narrower than the table: every value fits
        ({"b": None, "region": "string"}, never, {"b to region": ("rebuild", "If b was renamed to region: name it b")}),
        ({"b": None, "n": "int"}, never, {"n": ("evolve", "n: set evolve=True"), "b": ("rebuild", "b: give it still")}),
    ],
)
def test_each_change_of_a_column_has_its_way_out(
    result: dict[str, str | None], widens: Widens, ways: dict[str, tuple[str, str]]
) -> None:
    types = {column.name: column.type for column in _TABLE.columns} | result
    given = Shape(tuple(Column(name, type_) for name, type_ in types.items() if type_ is not None))
    found = {way.column: way for way in ways_out(drift(given, _TABLE), widens)}
    assert {name: way.how for name, way in found.items()} == {name: how for name, (how, _) in ways.items()}
    for name, (_, text) in ways.items():
        assert text in found[name].text


def test_what_is_changed_in_place_is_changed_with_evolve_alone() -> None:
    result = Shape((Column("a", "int"), Column("b", "string"), Column("c", "decimal(12,2)"), Column("d", "int")))
    with pytest.raises(SchemaDrift, match="set evolve=True"):
        intended(result, _TABLE, False, more_digits)
    assert intended(result, _TABLE, True, more_digits) == result.columns
    with pytest.raises(SchemaDrift, match=r"c: cast it") as refused:
        intended(result, _TABLE, True)
    assert "evolve" not in str(refused.value)  # it is set already
    assert refused.value.rebuild == ("c",)


def test_names_that_differ_only_by_case_are_one_name() -> None:
    with pytest.raises(SchemaDrift, match="two columns named A"):
        check_names(Shape((Column("a", "int"), Column("A", "int"))))
