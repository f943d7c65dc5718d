"""Crash at every failpoint, kill real processes, fire several at once: PostgreSQL holds the clean table. No JVM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twice.core.failpoints import Crash, Point, armed, crash_at
from twice.core.run import Outcome
from twice.runtime.recover import recover

from .postgres_shop import TASKS, ask, open_shop, run, wrong

LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
FORKS = Path(__file__).with_name("postgres_forks.py")


class Forks:
    """The warm process that forks children; every wait is bounded by the test's own time limit."""

    def __init__(self, url: str, ledger: Path) -> None:
        self.url, self.ledger = url, ledger
        self._process = subprocess.Popen(
            [sys.executable, str(FORKS), url, str(ledger)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self, **command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the warm process is gone"
        return json.loads(line)

    def rerun(self, name: str, index: int) -> Outcome:
        shop = open_shop(self.url, self.ledger, index + 1)
        try:
            return run(shop, name, index).outcome
        finally:
            shop.ledger.close()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


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
