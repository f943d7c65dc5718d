"""A takeover moves tokens and no rows: it is no publish whose effects nobody knows of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from sqlite3 import connect
from typing import Any

import pytest
from tests.runtime.conftest import DAY, RuntimeSetup

from twice import Daily, PublishedSlice, call, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.outbox import EffectState
from twice.core.results.run import RunRequest, RunResult
from twice.core.task import TableName, Task
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.runtime.upkeep.takeover import take_over
from twice.senders.call import CallSender

COPY = TableName("shop.copy")
WHO = HumanDecision("ana", "tried the new job, went back")


class Received(list[PublishedSlice]):
    def __call__(self, result: PublishedSlice, key: str) -> str:
        self.append(result)
        return "ok"


@pytest.fixture
def got() -> Received:
    return Received()


@pytest.fixture(autouse=True)
def _sends(runtime: RuntimeSetup) -> None:
    runtime.context = replace(runtime.context, senders={"call": CallSender()})


@pytest.fixture(params=["run", "rebuild"])
def looking(request: pytest.FixtureRequest, runtime: RuntimeSetup) -> Iterator[Any]:
    """Who finds the takeover first: a run's own look, or `twice ledger rebuild`."""
    yield (lambda: rebuild_ledger(runtime.context, None)) if request.param == "rebuild" else lambda: None


def copying(name: str, *effects: Any) -> Task:
    declared = task(
        "shop.copy",
        scope=Daily("order_date", start="2026-01-01"),
        inputs={"orders": read("shop.orders", by="order_date")},
        write=replace_rows(),
        name=name,
    )(lambda orders: orders)
    return replace(declared, effects=effects)


def mine(got: Received, again: Any = "never") -> Task:
    return copying("mine", call(got, keyed=False, name="announce", again=again))


def run(runtime: RuntimeSetup, declared: Task, silent: bool = False) -> RunResult:
    runtime.declare(declared)
    slice_ = declared.scope.slice_of("2026-06-09")  # type: ignore[union-attr]
    return run_task(runtime.context, declared, (slice_,), RunRequest(silent=silent))


def away_and_back(runtime: RuntimeSetup, declared: Task) -> None:
    other = runtime.declare(copying("other"))
    take_over(runtime.context, other, WHO)
    take_over(runtime.context, runtime.declare(declared), WHO)


@pytest.mark.parametrize("times", [1, 2])
def test_the_same_rows_are_not_announced_again_after_a_table_was_taken_over_and_taken_back(
    runtime: RuntimeSetup, got: Received, looking: Any, times: int
) -> None:
    declared = mine(got, again="when_changed")
    run(runtime, declared)
    for _ in range(times):
        away_and_back(runtime, declared)
    looking()
    run(runtime, declared)  # computed again, the very same rows
    assert len(got) == 1
    runtime.put_orders((1, DAY, 10), (2, DAY, 6))
    run(runtime, declared)
    assert len(got) == 2


def test_what_was_never_sent_goes_out_with_the_next_publish_also_after_a_takeover(
    runtime: RuntimeSetup, got: Received, looking: Any
) -> None:
    declared = mine(got)
    run(runtime, declared, silent=True)  # as a backfill does: a later publish of the slice may still send it
    away_and_back(runtime, declared)
    looking()
    run(runtime, declared)
    assert len(got) == 1


def test_a_publish_that_did_not_report_back_before_a_takeover_is_announced_once(
    runtime: RuntimeSetup, got: Received, looking: Any
) -> None:
    declared = mine(got)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        run(runtime, declared)
    runtime.clock.ahead += timedelta(hours=1)
    away_and_back(runtime, declared)
    looking()
    for _ in range(2):
        run(runtime, declared)
        assert [one.generation for one in got] == [1]


@pytest.mark.parametrize("again", ["never", "on_restate"])
def test_a_takeover_hides_no_publish_that_a_ledger_put_back_to_an_old_copy_does_not_know(
    runtime: RuntimeSetup, got: Received, looking: Any, again: str
) -> None:
    """What that publish has sent is unknown, below the takeover as it is without one."""
    declared, root = mine(got, again), runtime.context.root
    run(runtime, declared, silent=True)
    with closing(connect(root / "ledger.db")) as live, closing(connect(root / "backup.db")) as backup:
        live.backup(backup)
    runtime.put_orders((1, DAY, 10), (2, DAY, 6))
    run(runtime, declared)
    assert len(got) == 1
    lost, kept = runtime.ledger, Ledger.open(f"sqlite:///{root}/backup.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=kept)
    away_and_back(runtime, declared)
    looking()
    run(runtime, declared)
    recorded = [(effect.generation, effect.state) for effect in kept.outbox.listed((), None, 10)]
    if again == "never":
        assert (recorded, len(got)) == ([(2, EffectState.UNKNOWN)], 1)
    else:
        assert recorded == [(4, EffectState.SENT), (2, EffectState.UNKNOWN)]
        assert [one.generation for one in got] == [2, 4]
    lost.close()
    kept.close()


def test_a_takeover_of_another_table_than_the_one_that_was_published_to_hides_nothing_either(
    runtime: RuntimeSetup, got: Received, looking: Any
) -> None:
    """Warehouses were exchanged: the same generation below the takeover is another attempt's, and what it sent is not
    on record here."""
    declared, root = mine(got), runtime.context.root
    run(runtime, declared)
    there, here = runtime.ledger, Ledger.open(f"sqlite:///{root}/here.db", runtime.clock)
    exchanged = runtime.target._tables.pop(COPY.name)
    runtime.context = replace(runtime.context, ledger=here)
    run(runtime, declared, silent=True)
    runtime.target._tables[COPY.name] = exchanged
    away_and_back(runtime, declared)
    looking()
    run(runtime, declared)
    assert len(got) == 1
    there.close()
    here.close()
