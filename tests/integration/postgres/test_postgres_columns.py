"""Columns of types that Spark knows as text: documents, enums, uuids, characters of a fixed number. No JVM."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.contracts.postgres_harness import PostgresHarness, table
from tests.contracts.target_suite import DAILY, DAY, REVENUE, commit, generations, plan_of

from twice.core.ports import Column, Landed, Lost, Shape, Staged
from twice.core.task import TableName
from twice.core.write import Changes, Layout, UpsertRows
from twice.errors import DeclarationError, ResultRefused
from twice.targets.memory.rows import Rows
from twice.targets.postgres.write.verbs import _differs

DOCUMENTS = (Column("order_date", "date"), Column("id", "string"), Column("body", "string"), Column("mood", "string"))
DOCUMENT = (date(2026, 6, 9), "0e37df36-f698-11e6-8dd4-cb9ced3df976", '{"n": [1, null]}', "sunny")


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    return PostgresHarness(database)


def documents(harness: PostgresHarness, *rows: Any, attempt: str = "a", kind: str = "jsonb") -> Landed | Lost:
    target = harness.target()
    if attempt == "a":
        harness.ask("CREATE SCHEMA shop")
        harness.ask("CREATE TYPE shop.mood AS ENUM ('sunny', 'grim')")
        harness.ask(f"CREATE TABLE shop.revenue (order_date date, id uuid PRIMARY KEY, body {kind}, mood shop.mood)")
    into = target.prepare(REVENUE, Shape(DOCUMENTS), Layout(DAILY.held_in, key=("id",)), False)
    write = UpsertRows((DAY,), ("id",))
    plan = replace(plan_of(DAY), write=write)
    expected = generations(target, plan)
    return commit(target, target.stage(REVENUE, Rows(DOCUMENTS, rows), plan, attempt, into=into), expected)


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_documents_and_enums_come_back_as_they_went_and_the_same_again_changes_nothing(
    harness: PostgresHarness, kind: str
) -> None:
    empty = (DOCUMENT[0], DOCUMENT[1].replace("0", "1"), None, None)
    first = documents(harness, DOCUMENT, empty, kind=kind)
    assert table(harness) == [DOCUMENT, empty]
    again = documents(harness, DOCUMENT, empty, attempt="b")
    changed = documents(harness, (*DOCUMENT[:3], "grim"), attempt="c")
    counted = [
        (end.changes.inserted, end.changes.updated, end.changes.unchanged)
        for end in (first, again, changed)
        if isinstance(end, Landed) and end.changes
    ]
    assert counted == [(2, 0, 0), (0, 0, 2), (0, 1, 0)]


@pytest.mark.parametrize(("at", "wrong"), [(1, "no uuid"), (2, "{no json"), (3, "foggy")])
def test_text_that_its_column_cannot_be_is_refused_and_nothing_changes(
    harness: PostgresHarness, at: int, wrong: str
) -> None:
    with pytest.raises(ResultRefused, match="the table refuses the rows: invalid input"):
        documents(harness, (*DOCUMENT[:at], wrong, *DOCUMENT[at + 1 :]))
    assert table(harness) == []


def test_a_name_that_sql_would_take_apart_stays_one_name_and_a_struct_is_refused_by_the_columns_own(
    harness: PostgresHarness,
) -> None:
    columns = (Column("order_date", "date"), Column("user-agent", "string"), Column('say "when"', "bigint"))
    target, rows = harness.target(), [(date(2026, 6, 9), "curl", 1), (date(2026, 6, 9), "wget", 2)]
    plan = replace(plan_of(DAY), write=UpsertRows((DAY,), ("user-agent",), newest_by='say "when"'))
    layout = Layout(DAILY.held_in, key=("user-agent",))
    into = target.prepare(REVENUE, Shape(columns), layout, False)
    staged = target.stage(REVENUE, Rows(columns, tuple(rows)), plan, "a", into=into)
    assert isinstance(commit(target, staged, generations(target, plan)), Landed)
    assert table(harness) == rows
    for nested in ("struct<user-agent:string>", "array<struct<user-agent:string>>", "map<string,string>"):
        with pytest.raises(DeclarationError, match=r"column headers is .*, which has no type in PostgreSQL.*to_json"):
            target.prepare(TableName("shop.nested"), Shape((Column("headers", nested),)), Layout(), False)


# characters of a fixed number


@pytest.fixture
def emptied(one_database: str) -> PostgresHarness:
    harness = PostgresHarness(one_database)
    harness.ask("DROP SCHEMA IF EXISTS shop, twice CASCADE")
    return harness


CODES = (Column("id", "bigint"), Column("code", "string"), Column("status", "string"), Column("seq", "bigint"))
IN_ARRAYS = (CODES[0], Column("code", "array<string>"), *CODES[2:])
BY_SEQ = UpsertRows((replace(DAY, bounds=None),), ("id",), newest_by="seq")


class Codes:
    """A table `shop.revenue` whose column `code` has the type to be tested, and batches that are merged into it."""

    def __init__(self, harness: PostgresHarness, type_: str, key: str = "id", unique: bool = True) -> None:
        self.harness, self.target = harness, harness.target()
        self.columns = IN_ARRAYS if type_.endswith("[]") else CODES
        self.verb = replace(BY_SEQ, key=(key,))
        harness.ask("CREATE SCHEMA IF NOT EXISTS shop")
        harness.ask("DROP TABLE IF EXISTS shop.revenue")
        harness.ask("DROP DOMAIN IF EXISTS shop.code CASCADE")
        harness.ask("CREATE DOMAIN shop.code AS varchar(3)")
        harness.ask("CREATE DOMAIN shop.fine_code AS shop.code CHECK (VALUE <> '')")
        harness.ask(f"CREATE TABLE shop.revenue (id bigint, code {type_}, status text, seq bigint)")
        if unique:
            harness.ask(f"ALTER TABLE shop.revenue ADD PRIMARY KEY ({key})")

    def staged(self, attempt: str, *rows: Any, verb: UpsertRows | None = None) -> Staged:
        wrapped = [(row[0], [row[1]], *row[2:]) if self.columns is IN_ARRAYS else row for row in rows]
        layout = Layout(key=self.verb.key, any_partitions=True)
        into = self.target.prepare(REVENUE, Shape(self.columns), layout, False)
        plan = replace(plan_of(DAY), write=verb or self.verb, slices=self.verb.slices)
        return self.target.stage(REVENUE, Rows(self.columns, tuple(wrapped)), plan, attempt, into=into)

    def merge(self, attempt: str, *rows: Any, verb: UpsertRows | None = None) -> Changes:
        staged = self.staged(attempt, *rows, verb=verb)
        end = commit(self.target, staged, generations(self.target, staged.plan))
        assert isinstance(end, Landed) and end.changes is not None, end
        return end.changes

    @property
    def rows(self) -> list[Any]:
        return self.harness.ask("SELECT id, code, status, seq FROM shop.revenue ORDER BY id, code")


CHARACTERS = ["char(3)", "varchar(3)", "char(3)[]", "varchar(3)[]", "bpchar", "text"]


@pytest.mark.parametrize("type_", CHARACTERS)
def test_equally_new_rows_give_one_table_whatever_the_column_pads_or_cuts(emptied: PostgresHarness, type_: str) -> None:
    batches = [[(1, "ab", "x", 10)], [(1, "ab", "y", 10)], [(1, "aa", "z", 10)]]
    tables = []
    for order in (batches, batches[::-1], [[row for batch in batches for row in batch]]):
        codes = Codes(emptied, type_)
        for at, batch in enumerate(order):
            codes.merge(f"t{at}", *batch)
        tables.append(codes.rows)
    assert tables[0] == tables[1] == tables[2]
    assert tables[0][0][2] == "y"


@pytest.mark.parametrize("type_", ["char(3)", "varchar(3)", "char(3)[]", "varchar(3)[]", "bpchar", "bpchar[]"])
def test_text_with_blanks_at_its_end_is_compared_as_the_column_stores_it(emptied: PostgresHarness, type_: str) -> None:
    codes = Codes(emptied, type_)
    codes.merge("a", (1, "ab     ", "x", 10), (2, None, "x", 10))
    stored = codes.rows
    again = [codes.merge(attempt, (1, "ab     ", "x", 10), (2, None, "x", 10)) for attempt in ("b", "c")]
    assert again == [Changes(unchanged=2)] * 2
    assert codes.merge("d", (1, "ab     ", "x", 10), (1, "ab     ", "x", 10)) == Changes(unchanged=1, deduplicated=1)
    assert codes.rows == stored


@pytest.mark.parametrize("type_", ["char(3)", "varchar(3)", "char(3)[]", "varchar(3)[]", "shop.code", "shop.fine_code"])
@pytest.mark.parametrize("key", ["id", "code"])
def test_text_that_is_too_long_is_refused_also_where_its_beginning_is_there(
    emptied: PostgresHarness, type_: str, key: str
) -> None:
    codes = Codes(emptied, type_, key)
    codes.merge("a", (1, "abc", "x", 10))
    with pytest.raises(ResultRefused, match="value too long"):
        codes.merge("b", (1, "abcd", "x", 11))
    assert len(codes.rows) == 1


@pytest.mark.parametrize("type_", ["char(3)", "varchar(3)"])
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("null_keys", ["refuse", "match"])
def test_keys_are_one_if_the_column_stores_them_as_one(
    emptied: PostgresHarness, type_: str, unique: bool, null_keys: Any
) -> None:
    codes = Codes(emptied, type_, "code", unique)
    verb = replace(codes.verb, null_keys=null_keys)
    codes.merge("a", (1, "ab    ", "x", 10), (2, "ab     ", "y", 11), verb=verb)
    assert [row[0] for row in codes.rows] == [2]
    assert codes.merge("b", (2, "ab    ", "y", 11), verb=verb) == Changes(unchanged=1)
    assert codes.merge("c", (3, "ab      ", "z", 12), verb=verb) == Changes(updated=1)
    assert [row[0] for row in codes.rows] == [3]


@pytest.mark.parametrize(
    ("type_", "values"), [("char(3)", ("ab", "ab   ")), ("uuid", (DOCUMENT[1], DOCUMENT[1].upper()))]
)
def test_what_the_column_stores_as_one_value_is_no_unique_one(
    emptied: PostgresHarness, type_: str, values: tuple[str, str]
) -> None:
    codes = Codes(emptied, type_)
    staged = codes.staged("a", (1, values[0], "x", 10), (2, values[1], "x", 10))
    assert codes.target.duplicates(staged, ["code"]) == 1


@pytest.mark.parametrize("type_", ["text", "text[]", "varchar(9)", "char(9)", "shop.label"])
def test_texts_are_compared_by_their_bytes_whatever_the_columns_collation(emptied: PostgresHarness, type_: str) -> None:
    """A collation that takes Bob for bob would hide the change. The tests' server has none (they need ICU), so this
    reads the statement."""
    emptied.ask("CREATE SCHEMA shop")
    emptied.ask("CREATE DOMAIN shop.label AS text")
    stage = Codes(emptied, type_).staged("a", (1, "bob", "x", 10)).handle
    compared = [each for each in _differs(stage).as_string(None).split(" OR ") if '"code"' in each]
    assert [each.count('COLLATE "C"') for each in compared] == [2]
