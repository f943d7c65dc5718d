"""An environment moved to another database, and a mark that comes back under a run: on a real PostgreSQL. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg.errors import LockNotAvailable
from tests.contracts import target_suite as suite
from tests.contracts.postgres_harness import PostgresHarness
from tests.postgres_server import PostgresServer
from tests.runtime.conftest import REVENUE, RuntimeSetup, ShiftedClock, make_runtime, revenue_task, summed

from twice import Outcome, Since, merge, read, task
from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ports import Column, Landed, Lost, Staged
from twice.core.since import SINCE
from twice.core.slice import Slice
from twice.core.table.owner import LAST_TAKEOVER
from twice.core.task import TableName
from twice.errors import StageLost
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.targets.memory.rows import Rows
from twice.targets.postgres.write import publish
from twice.targets.postgres.write.verbs import carry_out

DAYS = ("2026-06-09", "2026-06-10")
CHANGES = TableName("shop.changes")
COLUMNS = (Column("id", "bigint"), Column("number", "bigint"), Column("amount", "bigint"))


@pytest.fixture
def here(database: str) -> PostgresHarness:
    return PostgresHarness(database)


@pytest.fixture
def there(postgres: PostgresServer) -> Iterator[PostgresHarness]:
    with postgres.lent_database() as url:
        yield PostgresHarness(url)


@pytest.fixture
def runtime(here: PostgresHarness, tmp_path: Path) -> Iterator[RuntimeSetup]:
    yield from bench_of(tmp_path / "ledger.db", here)


def bench_of(ledger: Path, harness: PostgresHarness) -> Iterator[RuntimeSetup]:
    """`shop.revenue` lies in PostgreSQL, what is read in memory."""
    clock = ShiftedClock()
    made = make_runtime(Ledger.open(f"sqlite:///{ledger}", clock), ledger.parent, clock)
    move(made, harness)
    yield made
    made.ledger.close()


def move(runtime: RuntimeSetup, harness: PostgresHarness) -> None:
    memory, target = runtime.target, harness.target()
    runtime.context = replace(runtime.context, target_of=lambda table, session: target if table == REVENUE else memory)


def wrong(orders: Rows) -> Rows:
    right = summed(orders)
    return Rows(right.columns, tuple((day, amount * 100) for day, amount in right.rows))


def test_what_was_published_to_one_database_is_not_believed_of_another(
    runtime: RuntimeSetup, there: PostgresHarness, tmp_path: Path
) -> None:
    for trial in bench_of(tmp_path / "trial.db", there):
        for day in DAYS:
            trial.run(trial.declare(revenue_task(wrong)), day)
    declared = runtime.declare(revenue_task())
    for day in DAYS:
        runtime.run(declared, day)
    move(runtime, there)
    slices = tuple(declared.scope.slice_of(day) for day in DAYS)  # type: ignore[union-attr]
    assert {each.status for each in slice_statuses(runtime.context, declared, slices, None)} == {"stale"}
    result = runtime.run(declared)
    assert (result.outcome, "another table" in result.notes[0]) == (Outcome.PUBLISHED, True)
    assert there.ask("SELECT revenue FROM shop.revenue ORDER BY order_date") == [(15,), (700,)]
    statuses = {each.label: each.status for each in slice_statuses(runtime.context, declared, slices, None)}
    assert statuses == {DAYS[0]: "published", DAYS[1]: "stale"}


def test_a_run_under_way_when_its_mark_is_reset_lands_nothing_where_the_mark_comes_back(
    runtime: RuntimeSetup, here: PostgresHarness
) -> None:
    """It has read a row that the source had wrong; landed late, it would move the mark past the repaired one."""
    scope, inputs = Since("number", initial=0), {"changes": read("shop.changes", by="number")}
    declare = task("shop.revenue", scope=scope, inputs=inputs, write=merge("id", newest_by="number"), name="copy")
    declared = runtime.declare(declare(lambda changes: changes))

    def run() -> Any:
        return run_task(runtime.context, declared, (SINCE,))

    def put(*amounts: int) -> None:
        rows = tuple((at, at, amount) for at, amount in enumerate(amounts, start=1))
        runtime.put(CHANGES, Rows(COLUMNS, rows))

    passed: list[Point] = []

    def repaired(point: Point | SendPoint) -> None:
        if point is Point.PUBLISHING and not passed:
            passed.append(point)
            runtime.clock.ahead += timedelta(hours=1)  # its lease has run out
            put(10, 20, 30)
            for to in ("1", "2"):
                reset_mark(runtime.context, declared, Reset(to, "ada", "the source was repaired"))

    put(10, 20)
    run()
    put(10, 20, 333)
    with armed(repaired), suppress(StageLost):
        run()
    run()
    assert here.ask("SELECT id, amount FROM shop.revenue ORDER BY id") == [(1, 10), (2, 20), (3, 30)]


@contextmanager
def held_at_its_commit(call: Callable[[], Any]) -> Iterator[list[Any]]:
    """What the call gives in the end. Its transaction is held open, right before its commit, until the block ends."""
    reached, go, ends = threading.Event(), threading.Event(), list[Any]()

    def hold(point: Point | SendPoint) -> None:
        if point is Point.BEFORE_COMMIT:
            reached.set()
            assert go.wait(60)

    def act() -> None:
        with armed(hold):
            ends.append(call())

    thread = threading.Thread(target=act)
    thread.start()
    try:
        assert reached.wait(60)
        yield ends
    finally:
        go.set()
        thread.join(60)


def test_runs_that_only_watch_a_token_do_not_wait_for_each_other(here: PostgresHarness) -> None:
    """Else a table's publishes would go one after the other from their first statement on."""
    suite.prepare(here.target())
    staged = staged_watching(here, suite.DAY)
    watched = "SELECT app_id FROM twice.tokens WHERE app_id LIKE 'twice-%%' ORDER BY app_id FOR {} NOWAIT"
    with held_at_its_commit(lambda: commit_watched(here, staged)) as ends:
        assert here.ask(watched.format("SHARE")) == [("twice-cut/p/revenue",), ("twice-takeover",)]
        with pytest.raises(LockNotAvailable):
            here.ask(watched.format("UPDATE"))
    assert [type(end) for end in ends] == [Landed]


def take_over(harness: PostgresHarness) -> None:
    suite.move_alone(harness.target(), suite.REVENUE, LAST_TAKEOVER, 1)


def test_a_publish_waits_for_a_takeover_that_is_about_to_commit_and_loses_to_it(here: PostgresHarness) -> None:
    suite.prepare(here.target())
    staged, ends = staged_watching(here, suite.DAY), list[Landed | Lost]()
    run = threading.Thread(target=lambda: ends.append(commit_watched(here, staged)))
    with held_at_its_commit(lambda: take_over(here)):
        run.start()
        run.join(2)
        assert run.is_alive()
    run.join(60)
    assert [type(end) for end in ends] == [Lost]
    assert here.ask("SELECT count(*) FROM shop.revenue") == [(0,)]


def test_a_takeover_waits_for_a_publish_that_has_compared(
    here: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although there was never a takeover: a row that is not there could not be locked."""
    suite.prepare(here.target())
    staged = staged_watching(here, suite.DAY)
    taking, waited = threading.Thread(target=take_over, args=(here,)), list[bool]()

    def slowly(*given: Any, **named: Any) -> Any:
        if threading.current_thread() is not taking:
            taking.start()
            taking.join(2)
            waited.append(taking.is_alive())
        return carry_out(*given, **named)

    monkeypatch.setattr(publish, "carry_out", slowly)
    assert isinstance(commit_watched(here, staged), Landed)
    taking.join(60)
    assert (waited, taking.is_alive()) == ([True], False)


def staged_watching(harness: PostgresHarness, slice_: Slice) -> Staged:
    target, rows = harness.target(), [suite.sale(slice_.label, "eu", "1.00")]
    plan = suite.watching(suite.plan_of(slice_))
    return target.stage(suite.REVENUE, harness.frame(target, suite.COLUMNS, rows), plan, f"a-{slice_.label}")


def commit_watched(harness: PostgresHarness, staged: Staged) -> Landed | Lost:
    expected = dict.fromkeys(staged.plan.compared, 0)
    return harness.target().commit(staged, expected, suite.note_of(staged.plan, staged.attempt, expected))
