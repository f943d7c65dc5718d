"""A write verb that a target does not know is refused before a row is published, never taken for one that it knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from twice.core.ports import Column, Shape
from twice.core.slice import WHOLE, Slice
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, WritePlan, may_delete
from twice.targets.delta.target import DeltaTarget
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget
from twice.targets.postgres.write.verbs import carry_out

CLICKS = TableName("shop.clicks")
COLUMNS = (Column("id", "bigint"),)


@dataclass(frozen=True)
class TruncateRows:
    """Of no target."""

    slices: tuple[Slice, ...]


UNKNOWN: Any = TruncateRows((WHOLE,))
PLAN = WritePlan(UNKNOWN, (WHOLE,), ("twice/p/clicks/all",))


def test_the_memory_target_stages_nothing_for_it() -> None:
    target = MemoryTarget()
    into = target.prepare(CLICKS, Shape(COLUMNS), Layout(), False)
    with pytest.raises(AssertionError, match="TruncateRows.* is not handled here"):
        target.stage(CLICKS, Rows(COLUMNS, ((1,),)), PLAN, "a", into=into)
    assert target.leftovers(CLICKS, "a") == ()


def test_the_memory_target_commits_nothing_for_it() -> None:
    target = MemoryTarget()
    into = target.prepare(CLICKS, Shape(COLUMNS), Layout(), False)
    known = replace(PLAN, write=AppendRows((WHOLE,)))
    staged = replace(target.stage(CLICKS, Rows(COLUMNS, ((1,),)), known, "a", into=into), plan=PLAN)
    (token,) = PLAN.token_names
    with pytest.raises(AssertionError, match="TruncateRows"):
        target.commit(staged, {token: 0}, CommitNote("a", "run", {token: 1}))
    assert target.published(CLICKS, PLAN.token_names).version is None


@pytest.mark.parametrize("frame", [object(), None])
@pytest.mark.parametrize("internal", [True, False])
def test_the_delta_target_stages_nothing_for_it(internal: bool, frame: Any) -> None:
    session: Any = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None, get=lambda *_: ""))
    target = DeltaTarget(session, lambda table: table.name, None, internal=internal)  # type: ignore[arg-type]
    handle: Any = SimpleNamespace(name=CLICKS)
    into: Any = SimpleNamespace(table=None)
    with pytest.raises(AssertionError, match="TruncateRows"):
        target._stage(handle, into, frame, PLAN, "a")


def test_the_postgres_target_sends_no_statement_for_it() -> None:
    connection: Any = object()
    stage: Any = object()
    with pytest.raises(AssertionError, match="TruncateRows"):
        carry_out(connection, stage, 1, UNKNOWN, compare=False)


def test_nobody_says_whether_it_deletes_or_where_its_files_are() -> None:
    with pytest.raises(AssertionError, match="TruncateRows"):
        may_delete(UNKNOWN)
    with pytest.raises(AssertionError, match="TruncateRows"):
        PLAN.file_slices  # noqa: B018 - asked, not used
