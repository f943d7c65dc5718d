"""Crash at every failpoint, kill real processes, fire several at once: PostgreSQL holds the clean table. No JVM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.endings import Ending, check_message, end_at
from tests.processes.postgres_forks_process import Forks
from tests.sample import sample

from twice import PublishedSlice, call
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.core.scope import slice_named
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

from .postgres_shop import TASKS, ask, day, open_context, run, wrong

LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)


@pytest.fixture
def forks(database: str, tmp_path: Path) -> Iterator[Forks]:
    made = Forks(database, tmp_path / "ledger.db")
    yield made
    made.end()


@pytest.mark.parametrize("name", sample(TASKS, of=["merged"]))
@pytest.mark.timeout(240)
def test_a_crash_in_process_at_any_failpoint_then_a_rerun_gives_the_clean_table(
    database: str, tmp_path: Path, name: str
) -> None:
    for index, point in enumerate(Point):
        context = open_context(database, tmp_path / "ledger.db", index + 1)
        dead = replace(context, holder=f"{context.holder.rpartition(':')[0]}:0")  # a process of our number that is gone
        with pytest.raises(Crash), armed(crash_at(point)):
            run(dead, name, index)
        outcome = run(context, name, index).outcome
        expected = (Outcome.ALREADY, Outcome.NOTHING_NEW) if point in LANDED else (Outcome.PUBLISHED,)
        assert outcome in expected, point
        assert wrong(database, {name: index + 1}) == [], point
        assert recover(context, None) == ()
        context.ledger.close()


def test_every_failpoint_is_reached_on_postgres(database: str, tmp_path: Path) -> None:
    context, reached = open_context(database, tmp_path / "ledger.db", 1), list[Point | SendPoint]()
    with armed(reached.append):
        run(context, "replaced", 0)
    context.ledger.close()
    assert reached == list(Point)


@pytest.mark.kill
@pytest.mark.parametrize("name", sample(TASKS, of=["merged"]))
@pytest.mark.timeout(240)
def test_a_process_really_killed_at_any_failpoint_then_a_rerun_gives_the_clean_table(forks: Forks, name: str) -> None:
    for index, point in enumerate(Point):
        killed = forks.send(do="run", task=name, day=index, kill=point.value)
        assert killed == {"status": -signal.SIGKILL}, point
        forks.rerun(name, index)
        assert wrong(forks.url, {name: index + 1}) == [], point


@pytest.mark.kill
@pytest.mark.parametrize("racers", sample([3, 8], of=[3]))
@pytest.mark.timeout(240)
def test_of_several_processes_that_publish_one_slice_at_once_one_wins(forks: Forks, racers: int) -> None:
    for number in range(10):
        ends = forks.send(do="race", round=number, racers=racers)["ends"]
        assert sorted(end["end"] for end in ends) == ["Landed"] + ["Lost"] * (racers - 1), ends
        (winner,) = [end["number"] for end in ends if end["end"] == "Landed"]
        rows = ask(forks.url, f"SELECT amount FROM shop.raced WHERE order_date = DATE '2026-01-01' + {number}")
        assert rows == [(winner,)] * (winner + 1)
    assert ask(forks.url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'stage\\_%'") == [(0,)]


AROUND = (Point.IN_STAGE, Point.BEFORE_COMMIT, *LANDED)
WALKS = {**{name: (name, AROUND) for name in TASKS}, **{f"{name} everywhere": (name, tuple(Point)) for name in TASKS}}


@pytest.mark.parametrize("walk", sample(WALKS, of=["merged"]))
@pytest.mark.timeout(300)
def test_whatever_ends_a_run_at_any_failpoint_a_rerun_gives_the_clean_table_and_sends_it_once(
    database: str, tmp_path: Path, walk: str
) -> None:
    name, points = WALKS[walk]
    received: list[tuple[str, int]] = []

    def announce(result: PublishedSlice, key: str) -> str:
        received.append((result.slice, result.generation))
        return key

    declared = replace(TASKS[name], effects=(call(announce, keyed=False, name="tell", again="on_restate"),))
    ways = [(ending, point) for ending in (Ending.ERROR, Ending.CTRL_C, Ending.SIGTERM) for point in points]
    for index, (ending, point) in enumerate(ways):
        context = open_context(database, tmp_path / "ledger.db", index + 1)
        context = replace(context, senders={"call": CallSender()}, project=assemble("proof", [declared]))
        wanted = (slice_named(declared.scope, None if name == "appended" else day(index)),)
        end = end_at(point, ending, lambda s=context, w=wanted: run_task(s, declared, w))  # type: ignore[misc]
        landed = published(database, name) == index + 1
        assert landed or point not in LANDED, (ending, point)
        if point is not Point.AFTER_PLAN:
            check_message(end, ending, landed)
        outcome = run_task(context, declared, wanted).outcome
        assert (outcome is Outcome.PUBLISHED) != landed, (ending, point)
        assert wrong(database, {name: index + 1}) == [], (ending, point)
        assert recover(context, None) == ()
        assert len(received) == len(set(received)) == index + 1, (ending, point)
        context.ledger.close()


def published(database: str, name: str) -> int:
    counted = f"SELECT count(*) FROM twice.commits JOIN twice.tables t ON t.id = table_id WHERE t.name = 'shop.{name}'"
    there = ask(database, "SELECT to_regclass('twice.commits') IS NOT NULL")
    return int(ask(database, counted)[0][0]) if there == [(True,)] else 0
