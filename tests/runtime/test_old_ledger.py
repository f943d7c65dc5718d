"""What is asked of a ledger often costs the same however long its history is. No clock measures it: SQLite counts the
steps of the programs that it makes of statements, and they are the same on every machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from tests.old_ledger import DAY_ONE, grow_old, label_at
from tests.runtime.conftest import ORDERS, RuntimeSetup, ShiftedClock, make_runtime

from twice import Hourly, read, task
from twice import replace as replace_rows
from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.backfill.result import BatchState, SliceEnd
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import (
    TABLE,
    AttemptState,
    Claim,
    ClaimRequest,
    Facts,
    InputRecord,
    SliceRecord,
)
from twice.core.ports import Column
from twice.core.project.project import assemble
from twice.core.table.token import Intention
from twice.core.task import Task
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.backfill import plan_backfill, start
from twice.runtime.backfill.worker import Stop, work
from twice.runtime.staleness.kept import not_right
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget

YOUNG, OLD, WIDE = (400, 20), (8_000, 20), (4_000, 2_000)
"""Attempts and slices: 20 attempts at each slice, 400, and 2 at each of a hundred times as many slices."""

COLUMNS = (Column("at", "timestamp"), Column("amount", "bigint"))
STEP = 100


def _sales(orders: Rows) -> Rows:
    return Rows(COLUMNS, tuple(sorted(orders.rows)))


def sales() -> Task:
    scope = Hourly("at", start="2015-01-01T00")
    declare = task("shop.sales", scope=scope, inputs={"orders": read("shop.orders", by="at")}, write=replace_rows())
    return declare(_sales)


class OldLedger:
    """A ledger with so many attempts at so many slices, and a run context on it."""

    def __init__(self, folder: Path, empty: Path, attempts: int, slices: int) -> None:
        folder.mkdir()
        shutil.copy(empty, folder / "ledger.db")
        self.ledger = Ledger.open(f"sqlite:///{folder}/ledger.db")
        grow_old(self.ledger, "_sales", attempts, slices)
        self.next = slices
        self.steps = 0
        event.listen(self.ledger._engine, "checkout", self._watch)
        self.runtime = self._runtime(folder)

    def _watch(self, connection: Any, *_: object) -> None:
        connection.set_progress_handler(self._count, STEP)

    def _count(self) -> int:
        self.steps += STEP
        return 0

    def _runtime(self, folder: Path) -> RuntimeSetup:
        made = make_runtime(self.ledger, folder, ShiftedClock())
        made.target = target = MemoryTarget()
        project = assemble("p", [sales()])
        made.context = replace(made.context, target_of=lambda table, session: target, project=project)
        rows = tuple((DAY_ONE + timedelta(hours=self.next + hour), hour) for hour in range(50))
        made.put(ORDERS, Rows(COLUMNS, rows))
        return made

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.steps = 0
        yield

    def run(self, hour: int, kind: str = "run") -> None:
        self.runtime.run(self.runtime.context.project.task("_sales"), label_at(self.next + hour), kind)


@pytest.fixture
def ledgers(tmp_path: Path, empty_ledger: Path) -> Iterator[Callable[[tuple[int, int]], OldLedger]]:
    made: list[OldLedger] = []

    def make(size: tuple[int, int]) -> OldLedger:
        made.append(OldLedger(tmp_path / f"{size[0]}-{size[1]}", empty_ledger, *size))
        return made[-1]

    yield make
    for each in made:
        each.ledger.close()


def _run(old: OldLedger) -> None:
    old.run(1)


def _run_again(old: OldLedger) -> None:
    old.run(1)
    old.steps = 0
    old.run(1)


def _restate(old: OldLedger) -> None:
    old.run(1)
    old.steps = 0
    old.run(1, "restate")


def _history(old: OldLedger) -> None:
    old.ledger.attempts("_sales")
    old.ledger.attempts("_sales", label_at(1), 20)


def _effects(old: OldLedger) -> None:
    outbox = old.ledger.outbox
    for states in ((), (EffectState.SENT,), (EffectState.PENDING, EffectState.IN_DOUBT)):
        outbox.listed(states, None, 20)
        outbox.listed(states, "_sales", 20)
    outbox.due("_sales", 10)
    outbox.not_reporting(None)
    outbox.next_due(None)


def _backfill(old: OldLedger) -> None:
    request = BackfillRequest("_sales", label_at(old.next), label_at(old.next + 2), batch="off")
    context = old.runtime.context
    record, plan = start(context.ledger, request, lambda: plan_backfill(context, request))
    assert plan is not None and len(plan.batches) == 3
    assert work(context, record.name, lambda _: None, Stop.never()).complete


def _open(old: OldLedger) -> None:
    old.ledger.open_attempts()
    old.ledger.open_attempts("_sales")
    old.ledger.undiscarded()
    old.ledger.undiscarded("_sales")
    old.ledger.left_open()


def _few_slices(old: OldLedger) -> None:
    labels = [label_at(hour) for hour in range(5)]
    old.ledger.inputs("_sales", labels)
    old.ledger.runs_of("_sales", labels)
    old.ledger.frozen_aim("_sales", labels[0], 1)
    old.ledger.last_version("_sales")


def _status(old: OldLedger) -> None:
    old.ledger.overview(None, 50)
    old.ledger.runs()
    not_right(old.runtime.context.project, old.ledger, old.runtime.context.project.task("_sales"))


OFTEN = [_run, _run_again, _restate, _history, _effects, _backfill, _open, _few_slices]


@pytest.mark.parametrize("ask", OFTEN, ids=lambda each: each.__name__)
def test_a_long_history_makes_nothing_slower_that_is_asked_often(
    ledgers: Callable[[tuple[int, int]], OldLedger], ask: Callable[[OldLedger], None]
) -> None:
    steps = {}
    for size in (YOUNG, OLD, WIDE):
        old = ledgers(size)
        with old.counted():
            ask(old)
        steps[size] = old.steps
    assert steps[OLD] <= 1.5 * steps[YOUNG] + 2_000, steps
    assert steps[WIDE] <= 1.5 * steps[YOUNG] + 2_000, steps


def test_a_status_takes_its_time_by_the_slices_not_by_the_attempts(
    ledgers: Callable[[tuple[int, int]], OldLedger],
) -> None:
    young, old = ledgers(YOUNG), ledgers(OLD)
    for each in (young, old):
        with each.counted():
            _status(each)
    assert old.steps <= 1.5 * young.steps + 2_000


def _batch(old: OldLedger, slices: int) -> list[str]:
    """Published by one attempt, each slice from two tables."""
    labels = [f"{slices} {label_at(hour)}" for hour in range(slices)]
    claim = old.ledger.claim(ClaimRequest("_sales", labels, f"batch {slices}", "run", "me"), timedelta(minutes=5))
    assert isinstance(claim, Claim)
    old.ledger.fix(claim, dict.fromkeys(labels, 0))
    read_ = tuple(InputRecord(label, TABLE, f"shop.{name}", None, 1) for name in "ab" for label in labels)
    known = tuple(SliceRecord(label, 0, Intention("c", "i"), 1, "f") for label in labels)
    old.ledger.advance(claim, AttemptState.CLAIMED, AttemptState.PUBLISHING, Facts(slices=known, inputs=read_))
    old.ledger.publish(claim.attempt, Facts(version=1), generations=dict.fromkeys(labels, 1))
    return labels


def test_what_a_large_batch_has_read_takes_steps_by_its_slices_alone(
    ledgers: Callable[[tuple[int, int]], OldLedger],
) -> None:
    old, steps = ledgers(YOUNG), {}
    for slices in (40, 400):
        labels = _batch(old, slices)
        with old.counted():
            assert all(len(each) == 2 for each in old.ledger.inputs("_sales", labels).values())
        steps[slices] = old.steps
        with old.counted():
            assert len(old.ledger.inputs("_sales", labels[-1:])) == 1
        steps[-slices] = old.steps
    assert steps[400] <= 12 * steps[40] + 1_000, steps
    assert steps[-400] <= 1_000, steps


def _plan(slices: int) -> BackfillPlan:
    request = BackfillRequest("_sales", label_at(0), label_at(slices - 1))
    batches = (PlannedBatch(n + 1, "_sales", (PlannedSlice(label_at(n), "missing", "so"),)) for n in range(slices))
    return BackfillPlan("plan", request, tuple(batches))


def test_the_batch_of_a_large_plan_takes_no_more_steps_than_that_of_a_small_one(
    ledgers: Callable[[tuple[int, int]], OldLedger],
) -> None:
    steps = {}
    old = ledgers(YOUNG)
    for slices in (20, 2_000):
        book = old.ledger.backfills
        plan = _plan(slices)
        assert book.create(replace(plan, name=f"plan {slices}"))
        with old.counted():
            for _ in range(3):
                claim = book.claim(f"plan {slices}", "me", timedelta(minutes=5))
                assert claim is not None and book.renew(claim, timedelta(minutes=5))
                assert book.done(claim, [SliceEnd(claim.labels[0], "published", 1, "f")], 1.0)
            assert book.records(replace(plan.request, silent=False)) == ()
            assert book.batches(f"plan {slices}", BatchState.FAILED) == ()
        steps[slices] = old.steps
    assert steps[2_000] <= 1.5 * steps[20] + 1_000, steps


def test_a_prune_walks_through_the_attempts_once(ledgers: Callable[[tuple[int, int]], OldLedger]) -> None:
    steps = {}
    for attempts in (4_000, 8_000):
        old = ledgers((attempts, 20))
        with old.counted():
            assert old.ledger.prune(datetime(2026, 6, 1, tzinfo=timezone.utc)).attempts == attempts - 40
        steps[attempts] = old.steps
    assert steps[8_000] <= 2.5 * steps[4_000], steps
