from __future__ import annotations

import pytest

from twice.core.ports import Column, Shape
from twice.errors import SchemaDrift
from twice.targets.schema import check_fit, check_names, drift, fits


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
    assert "evolve" not in text


def test_a_removed_column_may_stay_as_null_or_be_dropped_by_hand() -> None:
    table = Shape((Column("a", "int"), Column("b", "string")))
    with pytest.raises(SchemaDrift, match=r"Give b still, as NULL\. .* ALTER TABLE … DROP COLUMN") as refused:
        check_fit(Shape((Column("a", "int"),)), table)
    assert "restate" not in str(refused.value)


def test_names_that_differ_only_by_case_are_one_name() -> None:
    with pytest.raises(SchemaDrift, match="two columns named A"):
        check_names(Shape((Column("a", "int"), Column("A", "int"))))
