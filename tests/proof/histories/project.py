"""The tasks that the histories run: every strategy, by day and by mark, two of them with an effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as but
from datetime import datetime
from typing import Any

from twice import Daily, Policy, PublishedSlice, Since, append_once, audit, call, insert_new, merge, read, replace, task
from twice.core.ports import Column
from twice.core.project.project import Project, assemble
from twice.core.since import mark_text
from twice.core.task import Task
from twice.targets.memory.rows import Rows

from .steps import MIRRORED, START

WITH_EFFECTS = ("daily", "merged")
COLUMNS = (Column("id", "bigint"), Column("day", "date"), Column("seen", "timestamp"), Column("amount", "bigint"))


def _silence(_result: PublishedSlice, _key: str) -> None: ...


def project(
    initial: datetime = START, announce: Callable[[PublishedSlice, str], Any] = _silence, prefix: str = ""
) -> Project:
    """`prefix` names the tables' format, in front of their names."""
    effects = [call(announce, keyed=False, name="announce")]

    def declared(name: str, scope: Any, write: Any, by: str) -> Task:
        inputs = {"rows": read("shop.source", by=by)}
        sent = effects if name in WITH_EFFECTS else ()
        return task(f"{prefix}shop.{name}", scope=scope, write=write, inputs=inputs, name=name, effects=sent)(_same)

    day, since = Daily("day", start="2026-06-01"), Since("seen", initial=mark_text(initial))
    return assemble(
        "p",
        [
            declared("daily", day, replace(), "day"),
            declared("merged", day, merge("id", newest_by="seen"), "day"),
            declared("inserted", day, insert_new(["id", "seen"]), "day"),
            declared("raw", day, append_once(), "day"),
            declared(MIRRORED, day, merge("id", newest_by="seen", delete_missing=True), "day"),
            declared("feed", since, merge("id", newest_by="seen"), "seen"),
            declared("log", since, append_once(), "seen"),
        ],
    )


def evolving(declared: Project) -> Task:
    """`daily` with a new column, and an audit that no result passes."""
    return but(
        declared.task("daily"),
        function=_with_more,
        policy=Policy(evolve=True),
        audits=(audit.rows(at_least=1_000_000),),
    )


def _same(rows: Any) -> Any:
    return rows


def _with_more(rows: Any) -> Any:
    if isinstance(rows, Rows):
        return Rows((*rows.columns, Column("more", "bigint")), tuple((*row, 1) for row in rows.rows))
    return rows.selectExpr("*", "cast(1 as bigint) as more")
