"""Reading SQL: holes, splitting, dialects, positions, and input no database would take."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.sql import read
from twice.lint.statements.mask import mask, shown
from twice.lint.statements.parse import guess
from twice.lint.statements.read import split


@given(st.text(alphabet="{}%s()?:$ aé\n'\"-;", max_size=60))
def test_masking_never_moves_a_character(text: str) -> None:
    masked = mask(text)
    assert len(masked) == len(text)
    assert [i for i, c in enumerate(masked) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]


def test_holes_keep_their_names() -> None:
    assert shown(mask("SELECT * FROM sales_{{ ds }}")) == "SELECT * FROM sales_{ds}"
    assert shown(mask("a = %(day)s")) == "a = {day}"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT 1; SELECT 2", 2),
        ("SELECT ';'; SELECT 2;", 2),
        ("-- a; b\nSELECT 1", 1),
        ("/* ; */ SELECT 1;", 1),
        ("CREATE FUNCTION f() AS $$ SELECT 1; SELECT 2; $$; SELECT 3", 2),
        ("SELECT 1\nGO\nSELECT 2\nGO", 2),
        ("BEGIN TRAN\nDELETE FROM a\nINSERT INTO a SELECT 1\nCOMMIT", 4),
        ("WITH x AS (SELECT 1)\nINSERT INTO a SELECT * FROM x", 1),
        ("it's broken; SELECT 1", 2),
    ],
)
def test_scripts_are_split_at_statements_only(text: str, count: int) -> None:
    assert len(split(text)) == count


@given(st.text(alphabet="SELECT;'\"`$-/* \n", max_size=200))
def test_splitting_loses_no_statement_text(text: str) -> None:
    for statement in split(text):
        assert text[statement.offset : statement.offset + len(statement.text)] == statement.text


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("INSERT OVERWRITE TABLE t SELECT 1", "spark"),
        ("SELECT * FROM `proj.data.table`", "bigquery"),
        ("SELECT TOP 5 * FROM dbo.x", "tsql"),
        ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", "mysql"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "postgres"),
        ("SELECT 1", ""),
    ],
)
def test_the_dialect_is_guessed_from_the_text(text: str, dialect: str) -> None:
    assert guess(text) == dialect


def test_a_statement_no_dialect_reads_is_a_notice_and_the_others_are_read() -> None:
    facts = read("x.sql", "SELECT FROM WHERE (;\nINSERT INTO f SELECT 1;\n", ReadContext())
    assert [notice.line for notice in facts.notices] == [1]
    assert [write.target for write in facts.writes] == ["f"]


def test_positions_point_at_the_clock_in_a_long_statement() -> None:
    facts = read("x.sql", "INSERT INTO f\nSELECT a\nFROM s\nWHERE d > now()\n  AND e = 1;\n", ReadContext())
    assert [(clock.place.span.line, clock.use) for clock in facts.clocks] == [(4, "filter")]


def test_statements_of_a_procedure_are_read() -> None:
    text = (
        "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$\nBEGIN\n  DELETE FROM f;\n  INSERT INTO f SELECT 1;\nEND;\n$$;\n"
    )
    facts = read("p.sql", text, ReadContext())
    assert [(write.verb, write.place.span.line) for write in facts.writes] == [("delete", 3), ("insert", 4)]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "SELECT " + "(" * 300 + "1" + ")" * 300,
        "'" * 100_001,
        "{{" * 50_000,
        "INSERT INTO t VALUES " + ", ".join("(1, 'x')" for _ in range(30_000)),
        "SELECT " + " + ".join("a" for _ in range(5_000)) + " FROM t",
        "/*" * 20_000,
        "$a$" * 20_000,
    ],
)
def test_hostile_text_is_read_in_two_seconds(text: str) -> None:
    started = time.monotonic()
    read("x.sql", text, ReadContext())
    assert time.monotonic() - started < 2


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="INSERTOVALUESELECTFROMWHERE(),*;'\"ab1 \n", max_size=120))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read("x.sql", text, ReadContext())
