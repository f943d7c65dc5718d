"""Crash at every failpoint, kill real processes, fire several at once: PostgreSQL holds the clean table. No JVM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from twice.core.failpoints import Crash, Point, armed, crash_at
from twice.core.run import Outcome
from twice.runtime.recover import recover

from .postgres_forks_process import Forks
from .postgres_shop import TASKS, ask, open_shop, run, wrong

LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)


@pytest.fixture
def forks(database: str, tmp_path: Path) -> Iterator[Forks]:
    made = Forks(database, tmp_path / "ledger.db")
    yield made
    made.end()


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.timeout(240)
def test_a_crash_in_process_at_any_failpoint_then_a_rerun_gives_the_clean_table(
    database: str, tmp_path: Path, name: str
) -> None:
    for index, point in enumerate(Point):
        shop = open_shop(database, tmp_path / "ledger.db", index + 1)
        dead = replace(shop, holder=f"{shop.holder.rpartition(':')[0]}:0")  # a process of our number that is gone
        with pytest.raises(Crash), armed(crash_at(point)):
            run(dead, name, index)
        outcome = run(shop, name, index).outcome
        expected = (Outcome.ALREADY, Outcome.NOTHING_NEW) if point in LANDED else (Outcome.PUBLISHED,)
        assert outcome in expected, point
        assert wrong(database, {name: index + 1}) == [], point
        assert recover(shop, None) == ()
        shop.ledger.close()


def test_every_failpoint_is_met_on_postgres(database: str, tmp_path: Path) -> None:
    shop, met = open_shop(database, tmp_path / "ledger.db", 1), list[Point]()
    with armed(met.append):
        run(shop, "replaced", 0)
    shop.ledger.close()
    assert met == list(Point)


@pytest.mark.kill
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.timeout(240)
def test_a_process_really_killed_at_any_failpoint_then_a_rerun_gives_the_clean_table(forks: Forks, name: str) -> None:
    for index, point in enumerate(Point):
        killed = forks.tell(do="run", task=name, day=index, kill=point.value)
        assert killed == {"status": -signal.SIGKILL}, point
        forks.rerun(name, index)
        assert wrong(forks.url, {name: index + 1}) == [], point


@pytest.mark.kill
@pytest.mark.parametrize("racers", [2, 8])
@pytest.mark.timeout(240)
def test_of_several_processes_that_publish_one_slice_at_once_one_wins(forks: Forks, racers: int) -> None:
    for number in range(10):
        ends = forks.tell(do="race", round=number, racers=racers)["ends"]
        assert sorted(end["end"] for end in ends) == ["Landed"] + ["Lost"] * (racers - 1), ends
        (winner,) = [end["number"] for end in ends if end["end"] == "Landed"]
        rows = ask(forks.url, f"SELECT amount FROM shop.raced WHERE order_date = DATE '2026-01-01' + {number}")
        assert rows == [(winner,)] * (winner + 1)
    assert ask(forks.url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'stage\\_%'") == [(0,)]
