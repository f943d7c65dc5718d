"""Columns of types that Spark knows as text: documents, enums, uuids. No JVM."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.contracts.postgres_house import PostgresHouse, table
from tests.contracts.target_suite import DAILY, DAY, REVENUE, commit, generations, plan_of

from twice.core.ports import Column, Landed, Lost, Shape
from twice.core.task import TableName
from twice.core.write import Layout, UpsertRows
from twice.errors import DeclarationError, ResultRefused
from twice.targets.memory import Rows

DOCUMENTS = (Column("order_date", "date"), Column("id", "string"), Column("body", "string"), Column("mood", "string"))
DOCUMENT = (date(2026, 6, 9), "0e37df36-f698-11e6-8dd4-cb9ced3df976", '{"n": [1, null]}', "sunny")


@pytest.fixture
def house(database: str) -> PostgresHouse:
    return PostgresHouse(database)


def documents(house: PostgresHouse, *rows: Any, attempt: str = "a", kind: str = "jsonb") -> Landed | Lost:
    target = house.target()
    if attempt == "a":
        house.ask("CREATE SCHEMA shop")
        house.ask("CREATE TYPE shop.mood AS ENUM ('sunny', 'grim')")
        house.ask(f"CREATE TABLE shop.revenue (order_date date, id uuid PRIMARY KEY, body {kind}, mood shop.mood)")
    into = target.prepare(REVENUE, Shape(DOCUMENTS), Layout(DAILY.held_in, key=("id",)), False)
    write = UpsertRows((DAY,), ("id",))
    plan = replace(plan_of(DAY), write=write)
    expected = generations(target, plan)
    return commit(target, target.stage(REVENUE, Rows(DOCUMENTS, rows), plan, attempt, into=into), expected)


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_documents_and_enums_come_back_as_they_went_and_the_same_again_changes_nothing(
    house: PostgresHouse, kind: str
) -> None:
    empty = (DOCUMENT[0], DOCUMENT[1].replace("0", "1"), None, None)
    first = documents(house, DOCUMENT, empty, kind=kind)
    assert table(house) == [DOCUMENT, empty]
    again = documents(house, DOCUMENT, empty, attempt="b")
    changed = documents(house, (*DOCUMENT[:3], "grim"), attempt="c")
    counted = [
        (end.changes.inserted, end.changes.updated, end.changes.unchanged)
        for end in (first, again, changed)
        if isinstance(end, Landed) and end.changes
    ]
    assert counted == [(2, 0, 0), (0, 0, 2), (0, 1, 0)]


@pytest.mark.parametrize(("at", "wrong"), [(1, "no uuid"), (2, "{no json"), (3, "foggy")])
def test_text_that_its_column_cannot_be_is_refused_and_nothing_changes(
    house: PostgresHouse, at: int, wrong: str
) -> None:
    with pytest.raises(ResultRefused, match="the table refuses the rows: invalid input"):
        documents(house, (*DOCUMENT[:at], wrong, *DOCUMENT[at + 1 :]))
    assert table(house) == []


def test_a_name_that_sql_would_take_apart_stays_one_name_and_a_struct_is_refused_by_the_columns_own(
    house: PostgresHouse,
) -> None:
    columns = (Column("order_date", "date"), Column("user-agent", "string"), Column('say "when"', "bigint"))
    target, rows = house.target(), [(date(2026, 6, 9), "curl", 1), (date(2026, 6, 9), "wget", 2)]
    plan = replace(plan_of(DAY), write=UpsertRows((DAY,), ("user-agent",), newest_by='say "when"'))
    layout = Layout(DAILY.held_in, key=("user-agent",))
    into = target.prepare(REVENUE, Shape(columns), layout, False)
    staged = target.stage(REVENUE, Rows(columns, tuple(rows)), plan, "a", into=into)
    assert isinstance(commit(target, staged, generations(target, plan)), Landed)
    assert table(house) == rows
    for nested in ("struct<user-agent:string>", "array<struct<user-agent:string>>", "map<string,string>"):
        with pytest.raises(DeclarationError, match=r"column headers is .*, which has no type in PostgreSQL.*to_json"):
            target.prepare(TableName("shop.nested"), Shape((Column("headers", nested),)), Layout(), False)
