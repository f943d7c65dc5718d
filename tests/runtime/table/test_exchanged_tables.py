"""Two tables of one task at the same generation: what is remembered of the one is not believed of the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import (
    DAY,
    NEXT,
    ORDERS,
    RuntimeSetup,
    ShiftedClock,
    make_runtime,
    revenue_task,
    summed,
)

from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.results.run import Outcome
from twice.core.task import Task
from twice.ledgers.ledger import Ledger
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.table import same_table
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget

DAYS = ("2026-06-09", "2026-06-10")


def wrong(orders: Rows) -> Rows:
    right = summed(orders)
    return Rows(right.columns, tuple((day, amount * 100) for day, amount in right.rows))


class Profile:
    """One of two environments with a ledger in common."""

    def __init__(self, name: str, folder: Path) -> None:
        clock = ShiftedClock()
        owner = RecordOwner("p", name, {"revenue": TaskTable(name, "delta:shop.revenue")})
        ledger = Ledger.open(f"sqlite:///{folder}/ledger.db", clock, owner=owner)
        self.runtime: RuntimeSetup = make_runtime(ledger, folder, clock)
        self._orders = self.runtime.target

    def on(self, warehouse: MemoryTarget) -> None:
        def target_of(table: Any, session: Any) -> MemoryTarget:
            return self._orders if table == ORDERS else warehouse

        self.runtime.target = warehouse
        self.runtime.context = replace(self.runtime.context, target_of=target_of)

    def declare(self, code: str, function: Any) -> Task:
        self.runtime.code[0] = code
        return self.runtime.declare(revenue_task(function))


@pytest.fixture
def exchanged(tmp_path: Path, empty_ledger: Path) -> Iterator[tuple[RuntimeSetup, Task]]:
    """The new code published here, the old code there; then the two warehouses were exchanged."""
    shutil.copy(empty_ledger, tmp_path / "ledger.db")
    here, there = Profile("here", tmp_path), Profile("there", tmp_path)
    a, b = MemoryTarget(), MemoryTarget()
    here.on(a)
    there.on(b)
    old, new = there.declare("v1", wrong), here.declare("v2", summed)
    for day in DAYS:
        there.runtime.run(old, day)
        here.runtime.run(new, day)
    here.on(b)
    yield here.runtime, new
    here.runtime.ledger.close()
    there.runtime.ledger.close()


def test_a_run_does_not_take_another_tables_rows_for_what_it_published(exchanged: tuple[RuntimeSetup, Task]) -> None:
    runtime, declared = exchanged
    result = runtime.run(declared)
    assert result.outcome is Outcome.PUBLISHED
    assert "another table" in result.notes[0]
    assert runtime.revenue == [(DAY, 15), (NEXT, 700)]
    again = runtime.run(declared)
    assert again.outcome is Outcome.ALREADY
    assert again.notes == ()


def test_nor_does_a_run_of_several_slices_at_once(exchanged: tuple[RuntimeSetup, Task]) -> None:
    runtime, declared = exchanged
    slices = tuple(declared.scope.slice_of(day) for day in DAYS)  # type: ignore[union-attr]
    assert run_task(runtime.context, declared, slices).outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 15), (NEXT, 7)]


def test_a_restatement_of_another_tables_rows_is_not_called_identical(exchanged: tuple[RuntimeSetup, Task]) -> None:
    runtime, declared = exchanged
    assert runtime.run(declared, kind="restate").outcome is not Outcome.IDENTICAL
    assert runtime.revenue == [(DAY, 15), (NEXT, 700)]


@pytest.mark.parametrize("days", [DAYS[:1], DAYS])
def test_plan_and_backfill_see_another_tables_rows_as_stale(
    exchanged: tuple[RuntimeSetup, Task], days: tuple[str, ...]
) -> None:
    runtime, declared = exchanged
    slices = tuple(declared.scope.slice_of(day) for day in days)  # type: ignore[union-attr]
    assert {found.status for found in slice_statuses(runtime.context, declared, slices, None)} == {"stale"}
    assert all(explain(runtime.context, declared, slice_).compute for slice_ in slices)


def test_where_the_log_forgot_who_published_the_ledger_is_believed(
    exchanged: tuple[RuntimeSetup, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, declared = exchanged
    monkeypatch.setattr(runtime.target, "provenance", lambda *_, **__: None)
    assert runtime.run(declared).outcome is Outcome.ALREADY


@pytest.mark.parametrize("first", [DAYS[0], "2026-06-11"])
def test_that_one_slice_is_right_by_now_says_nothing_of_the_others(
    exchanged: tuple[RuntimeSetup, Task], first: str
) -> None:
    """The newest publish on record is this table's own: of a slice put right, or of one that nobody had published."""
    runtime, declared = exchanged
    runtime.run(declared, first)
    slices = tuple(declared.scope.slice_of(day) for day in sorted((first, DAYS[1])))  # type: ignore[union-attr]
    found = {one.label: one.status for one in slice_statuses(runtime.context, declared, slices, None)}
    assert found == {first: "published", DAYS[1]: "stale"}
    run_task(runtime.context, declared, slices)
    assert (NEXT, 7) in runtime.revenue


def test_a_slice_whose_commit_the_log_forgot_says_nothing_of_the_others(
    exchanged: tuple[RuntimeSetup, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, declared = exchanged
    provenance, (first, other) = runtime.target.provenance, DAYS

    def forgetful(table: Any, name: str, *given: Any, **at: Any) -> Any:
        return None if name.endswith(first) else provenance(table, name, *given, **at)

    monkeypatch.setattr(runtime.target, "provenance", forgetful)
    slices = tuple(declared.scope.slice_of(day) for day in DAYS)  # type: ignore[union-attr]
    found = {one.label: one.status for one in slice_statuses(runtime.context, declared, slices, None)}
    assert found[other] == "stale"


def test_many_commits_are_asked_for_by_one_question(
    exchanged: tuple[RuntimeSetup, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, declared = exchanged
    asked: list[Any] = []
    monkeypatch.setattr(same_table, "_ONE_BY_ONE", 1)
    monkeypatch.setattr(runtime.target, "provenance", lambda *given, **_: asked.append(given))
    slices = tuple(declared.scope.slice_of(day) for day in DAYS)  # type: ignore[union-attr]
    assert {found.status for found in slice_statuses(runtime.context, declared, slices, None)} == {"stale"}
    assert asked == []
