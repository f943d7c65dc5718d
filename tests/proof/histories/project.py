"""The tasks that the histories run: every strategy, by day and by mark, two of them with an effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as but
from typing import Any

from twice import (
    Daily,
    Monthly,
    Policy,
    PublishedSlice,
    Since,
    append_once,
    audit,
    call,
    insert_new,
    merge,
    read,
    replace,
    task,
)
from twice.core.ports import Column
from twice.core.project.project import Project, assemble
from twice.core.since import mark_text
from twice.core.task import Task
from twice.targets.memory.rows import Rows

from .steps import INCREMENTAL, MIRRORED, Declared

WITH_EFFECTS = ("daily", "merged")
COLUMNS = (Column("id", "bigint"), Column("day", "date"), Column("seen", "timestamp"), Column("amount", "bigint"))


def _silence(_result: PublishedSlice, _key: str) -> None: ...


def project(
    as_: Declared = Declared(),  # noqa: B008 - it is frozen
    announce: Callable[[PublishedSlice, str], Any] = _silence,
    prefix: str = "",
) -> Project:
    """`prefix` names the tables' format, in front of their names."""
    effects = [call(announce, keyed=False, name="announce")]
    since = Since("seen", initial=mark_text(as_.initial))

    def declared(table: str, write: Any) -> Task:
        scope = since if table in INCREMENTAL else _scope(as_, table)
        inputs = {"rows": read("shop.source", by=scope.cursor if isinstance(scope, Since) else scope.column)}
        sent, name = effects if table in WITH_EFFECTS else (), as_.name_of(table)
        declare = task(f"{prefix}shop.{table}", scope=scope, write=write, inputs=inputs, name=name, effects=sent)
        return declare(_adding(as_.added_to(table)))

    return assemble(
        "p",
        [
            declared("daily", replace()),
            declared("merged", merge("id", newest_by="seen")),
            declared("inserted", insert_new(["id", "seen"])),
            declared("raw", append_once()),
            declared(MIRRORED, merge("id", newest_by="seen", delete_missing=True)),
            declared("feed", merge("id", newest_by="seen")),
            declared("log", append_once()),
        ],
    )


def _scope(as_: Declared, table: str) -> Daily | Monthly:
    """Months in a table whose partitions are days, so that either can be written over the other."""
    if table in as_.monthly:
        return Monthly("day", start="2026-06", slice_column="day")
    return Daily("day", start="2026-06-01")


def evolving(daily: Task) -> Task:
    """`daily` with a new column, and an audit that no result passes."""
    return but(
        daily,
        function=_with_more,
        policy=Policy(evolve=True),
        audits=(audit.rows(at_least=1_000_000),),
    )


def _adding(more: int) -> Callable[[Any], Any]:
    def same_but_for_amounts(rows: Any) -> Any:
        if not more:
            return rows
        if isinstance(rows, Rows):
            return Rows(rows.columns, tuple((*row[:3], row[3] + more) for row in rows.rows))
        return rows.selectExpr("id", "day", "seen", f"amount + {more}L as amount")

    return same_but_for_amounts


def _with_more(rows: Any) -> Any:
    if isinstance(rows, Rows):
        return Rows((*rows.columns, Column("more", "bigint")), tuple((*row, 1) for row in rows.rows))
    return rows.selectExpr("*", "cast(1 as bigint) as more")
