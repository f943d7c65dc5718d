"""Leases between real processes: busy, waited for, lost by a stopped process, passed after a kill. No JVM.

The ledger and the target are in one PostgreSQL; nothing here rests on the lease but work saved.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from tests.processes.worker_process import PLAIN_WORKER, Worker

from twice.ledgers.ledger import Ledger

from .conftest import until

DAY = "2026-06-09"


@pytest.fixture
def workers(database: str) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(lease: float = 60) -> Worker:
        started.append(Worker(database, database, str(lease), module=PLAIN_WORKER))
        return started[-1].ready()

    yield start
    for worker in started:
        worker.end()


def table(database: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as connection:
        return connection.execute("SELECT day::text, code FROM public.revenue ORDER BY 1, 2").fetchall()


def lease_is_over(database: str) -> None:
    """Wait until the server's own clock says so."""
    held = "SELECT count(*) FROM twice_leases WHERE until > clock_timestamp()"
    with psycopg.connect(database, autocommit=True) as connection:
        until(lambda: connection.execute(held).fetchone() == (0,), "the lease to run out")


def test_a_busy_slice_says_who_holds_it_and_until_when(workers: Callable[..., Worker], database: str) -> None:
    first, second = workers(), workers()
    first.send(do="run", dates=[DAY], pause="after_look")
    assert first.receive() == {"paused": "after_look"}
    (busy,) = second.run("revenue", DAY)
    assert busy["exit"] == 3
    assert f":{first.process.pid}:" in busy["error"]
    ledger = Ledger.open(database)
    (attempt,) = ledger.open_attempts()
    ledger.close()
    assert attempt.lease_until is not None
    assert attempt.id[:8] in busy["error"]
    assert f"its lease runs until {attempt.lease_until:%H:%M:%S} UTC" in busy["error"]
    assert attempt.lease_until > datetime.now(timezone.utc)
    second.send(do="run", dates=[DAY], wait=60)
    first.send(go=True)
    assert first.receive()["ends"][0]["outcome"] == "published"
    (waited,) = second.receive()["ends"]
    assert waited["outcome"] == "already published"
    assert table(database) == [(DAY, "v1")]


@pytest.mark.kill
@pytest.mark.parametrize(
    ("code", "exit_", "words"),
    [("v1", 0, "published by"), ("v2", 1, "published first, with other code or other inputs")],
)
def test_a_process_stopped_past_its_lease_and_continued_loses_at_the_target_and_says_so(
    workers: Callable[..., Worker], database: str, code: str, exit_: int, words: str
) -> None:
    stopped, other = workers(lease=1), workers()
    stopped.send(do="run", dates=[DAY], pause="publishing")
    assert stopped.receive() == {"paused": "publishing"}
    os.kill(stopped.process.pid, signal.SIGSTOP)
    lease_is_over(database)
    (won,) = other.run("revenue", DAY, code=code)
    assert won["outcome"] == "published"
    os.kill(stopped.process.pid, signal.SIGCONT)
    stopped.send(go=True)
    (lost,) = stopped.receive()["ends"]
    assert lost["exit"] == exit_, lost
    reported = lost.get("error") or lost["why"]
    assert words in reported
    assert won["attempt"][:8] in reported
    assert table(database) == [(DAY, code)]
    ledger = Ledger.open(database)
    assert ledger.open_attempts() == ()
    assert [a.state.value for a in ledger.attempts("revenue")] == ["published", "superseded"]
    assert [run.generation for run in ledger.runs()] == [1]
    ledger.close()


@pytest.mark.kill
def test_a_process_stopped_past_its_lease_before_it_publishes_lets_go(
    workers: Callable[..., Worker], database: str
) -> None:
    stopped, other = workers(lease=1), workers()
    stopped.send(do="run", dates=[DAY], pause="after_audit")
    assert stopped.receive() == {"paused": "after_audit"}
    os.kill(stopped.process.pid, signal.SIGSTOP)
    lease_is_over(database)
    other.send(do="run", dates=[DAY], pause="after_look", code="v2")
    assert other.receive() == {"paused": "after_look"}
    os.kill(stopped.process.pid, signal.SIGCONT)
    stopped.send(go=True)
    (lost,) = stopped.receive()["ends"]
    assert (lost["code"], lost["exit"]) == ("lease-lost", 1)
    assert "stopped reporting, and another one has taken the slice over" in lost["error"]
    other.send(go=True)
    assert other.receive()["ends"][0]["outcome"] == "published"
    assert table(database) == [(DAY, "v2")]


@pytest.mark.kill
def test_a_killed_process_is_passed_at_once_on_its_own_machine(workers: Callable[..., Worker], database: str) -> None:
    killed, other = workers(), workers()
    killed.send(do="run", dates=[DAY], pause="publishing")
    assert killed.receive() == {"paused": "publishing"}
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait(30)
    (end,) = other.run("revenue", DAY)
    assert end["outcome"] == "published"
    assert table(database) == [(DAY, "v1")]


def test_a_heartbeat_keeps_a_lease_far_beyond_its_length(workers: Callable[..., Worker], database: str) -> None:
    slow = workers(lease=2)
    slow.send(do="run", dates=[DAY], pause="after_stage")
    assert slow.receive() == {"paused": "after_stage"}
    ledger = Ledger.open(database)

    def lease_until() -> datetime:
        (attempt,) = ledger.open_attempts()
        assert attempt.lease_until is not None
        return attempt.lease_until

    first = lease_until()
    until(lambda: lease_until() > first + timedelta(seconds=3), "the lease to be renewed twice")
    ledger.close()
    slow.send(go=True)
    assert slow.receive()["ends"][0]["outcome"] == "published"
