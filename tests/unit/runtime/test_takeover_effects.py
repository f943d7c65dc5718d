"""A takeover moves tokens and no rows: it is no publish whose effects nobody knows of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from sqlite3 import connect
from typing import Any

import pytest

from twice import Daily, PublishedSlice, call, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.outbox import EffectState
from twice.core.results.run import RunRequest, RunResult
from twice.core.task import TableName, Task
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.rebuild import rebuild
from twice.runtime.upkeep.takeover import Takeover, take_over
from twice.senders.call import CallSender

from .conftest import DAY, Bench

COPY = TableName("shop.copy")
WHO = Takeover("ana", "tried the new job, went back")


class Received(list[PublishedSlice]):
    def __call__(self, result: PublishedSlice, key: str) -> str:
        self.append(result)
        return "ok"


@pytest.fixture
def got() -> Received:
    return Received()


@pytest.fixture(autouse=True)
def _sends(bench: Bench) -> None:
    bench.context = replace(bench.context, senders={"call": CallSender()})


@pytest.fixture(params=["run", "rebuild"])
def looking(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Any]:
    """Who finds the takeover first: a run's own look, or `twice ledger rebuild`."""
    yield (lambda: rebuild(bench.context, None)) if request.param == "rebuild" else lambda: None


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


def run(bench: Bench, declared: Task, silent: bool = False) -> RunResult:
    bench.declare(declared)
    slice_ = declared.scope.slice_of("2026-06-09")  # type: ignore[union-attr]
    return run_task(bench.context, declared, (slice_,), RunRequest(silent=silent))


def away_and_back(bench: Bench, declared: Task) -> None:
    other = bench.declare(copying("other"))
    take_over(bench.context, other, WHO)
    take_over(bench.context, bench.declare(declared), WHO)


@pytest.mark.parametrize("times", [1, 2])
def test_the_same_rows_are_not_announced_again_after_a_table_was_taken_over_and_taken_back(
    bench: Bench, got: Received, looking: Any, times: int
) -> None:
    declared = mine(got, again="when_changed")
    run(bench, declared)
    for _ in range(times):
        away_and_back(bench, declared)
    looking()
    run(bench, declared)  # computed again, the very same rows
    assert len(got) == 1
    bench.put_orders((1, DAY, 10), (2, DAY, 6))
    run(bench, declared)
    assert len(got) == 2


def test_what_was_never_sent_goes_out_with_the_next_publish_also_after_a_takeover(
    bench: Bench, got: Received, looking: Any
) -> None:
    declared = mine(got)
    run(bench, declared, silent=True)  # as a backfill does: a later publish of the slice may still send it
    away_and_back(bench, declared)
    looking()
    run(bench, declared)
    assert len(got) == 1


def test_a_publish_that_did_not_report_back_before_a_takeover_is_announced_once(
    bench: Bench, got: Received, looking: Any
) -> None:
    declared = mine(got)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        run(bench, declared)
    bench.clock.ahead += timedelta(hours=1)
    away_and_back(bench, declared)
    looking()
    for _ in range(2):
        run(bench, declared)
        assert [one.generation for one in got] == [1]


@pytest.mark.parametrize("again", ["never", "on_restate"])
def test_a_takeover_hides_no_publish_that_a_ledger_put_back_to_an_old_copy_does_not_know(
    bench: Bench, got: Received, looking: Any, again: str
) -> None:
    """What that publish has sent is unknown, below the takeover as it is without one."""
    declared, root = mine(got, again), bench.context.root
    run(bench, declared, silent=True)
    with closing(connect(root / "ledger.db")) as live, closing(connect(root / "backup.db")) as backup:
        live.backup(backup)
    bench.put_orders((1, DAY, 10), (2, DAY, 6))
    run(bench, declared)
    assert len(got) == 1
    lost, kept = bench.ledger, Ledger.open(f"sqlite:///{root}/backup.db", bench.clock)
    bench.context = replace(bench.context, ledger=kept)
    away_and_back(bench, declared)
    looking()
    run(bench, declared)
    recorded = [(effect.generation, effect.state) for effect in kept.outbox.listed((), None, 10)]
    if again == "never":
        assert (recorded, len(got)) == ([(2, EffectState.UNKNOWN)], 1)
    else:
        assert recorded == [(4, EffectState.SENT), (2, EffectState.UNKNOWN)]
        assert [one.generation for one in got] == [2, 4]
    lost.close()
    kept.close()


def test_a_takeover_of_another_table_than_the_one_that_was_published_to_hides_nothing_either(
    bench: Bench, got: Received, looking: Any
) -> None:
    """Warehouses were exchanged: the same generation below the takeover is another attempt's, and what it sent is not
    on record here."""
    declared, root = mine(got), bench.context.root
    run(bench, declared)
    there, here = bench.ledger, Ledger.open(f"sqlite:///{root}/here.db", bench.clock)
    exchanged = bench.target._tables.pop(COPY.name)
    bench.context = replace(bench.context, ledger=here)
    run(bench, declared, silent=True)
    bench.target._tables[COPY.name] = exchanged
    away_and_back(bench, declared)
    looking()
    run(bench, declared)
    assert len(got) == 1
    there.close()
    here.close()
