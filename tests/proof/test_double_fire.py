"""Two real processes at once: one commit, nobody lies about it."""

from __future__ import annotations

import os
import signal
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.processes.worker_process import Worker
from tests.sample import sample

from .conftest import until
from .tables import commits, rows, tokens

pytestmark = pytest.mark.kill


def test_with_the_lease_in_force_the_second_is_busy_or_waits(two_workers: tuple[Worker, Worker], project: Path) -> None:
    first, second = two_workers
    first.send(do="run", task="revenue", dates=["2026-06-09"], pause="after_audit")
    assert first.receive() == {"paused": "after_audit"}
    (busy,) = second.run("revenue", "2026-06-09")
    assert busy["exit"] == 3
    assert "is running this slice" in busy["error"]
    second.send(do="run", task="revenue", dates=["2026-06-09"], wait=60)
    first.send(go=True)
    (won,) = first.receive()["ends"]
    (waited,) = second.receive()["ends"]
    assert (won["outcome"], waited["outcome"]) == ("published", "already published")
    assert tokens(project / "warehouse/shop/revenue") == [("twice/proof/revenue/2026-06-09", 1)]


@pytest.mark.timeout(400)
def test_with_the_lease_lost_one_commit_lands_and_the_loser_says_who_won(
    two_workers: tuple[Worker, Worker], project: Path
) -> None:
    first, second = two_workers
    dates = ["2026-06-01", "2026-06-02", "2026-06-03"]
    for day in dates:
        first.send(do="run", task="revenue", dates=[day], pause="publishing", heartbeat=False)
        assert first.receive() == {"paused": "publishing"}
        second.send(do="run", task="revenue", dates=[day], pause="publishing", wait=60)  # until the lease runs out
        assert second.receive() == {"paused": "publishing"}
        first.send(go=True)
        second.send(go=True)
        (one,), (two,) = first.receive()["ends"], second.receive()["ends"]
        assert sorted(end["outcome"] for end in (one, two)) == ["already published", "published"]
        winner, loser = (one, two) if one["outcome"] == "published" else (two, one)
        assert loser["why"] == f"published by {winner['attempt'][:8]}"
        assert (one["exit"], two["exit"]) == (0, 0)
    assert tokens(project / "warehouse/shop/revenue") == [(f"twice/proof/revenue/{day}", 1) for day in dates]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", sample([4, 40], of=[4]))
def test_two_processes_on_other_slices_of_one_table_lose_no_commit(
    two_workers: tuple[Worker, Worker], project: Path, spark: Any, number: int
) -> None:
    first, second = two_workers
    days = [str(date(2026, 6, 1) + timedelta(days=at)) for at in range(number)]
    first.send(do="run", task="revenue", dates=days[0::2])
    second.send(do="run", task="revenue", dates=days[1::2])
    ends = first.receive()["ends"] + second.receive()["ends"]
    assert [end.get("outcome") for end in ends] == ["published"] * number, ends
    table = project / "warehouse/shop/revenue"
    assert sorted(tokens(table)) == sorted((f"twice/proof/revenue/{day}", 1) for day in days)
    assert len(rows(spark, table)) == 3 * number
    assert len([c for c in commits(table) if any("txn" in action for action in c)]) == number


def unread_bytes(port: int) -> int:
    """What lies unread in the sockets of a local port, by the kernel's own table."""
    total = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port:
                total += int(fields[4].partition(":")[2], 16)
    return total


@pytest.mark.timeout(400)
def test_a_jvm_that_outlives_its_python_and_commits_late_neither_loses_nor_doubles(
    two_workers: tuple[Worker, Worker], project: Path, spark: Any
) -> None:
    zombie, rerun = two_workers
    zombie.send(do="run", task="revenue", dates=["2026-06-09"], stop_jvm=True)
    stopped = zombie.receive()
    assert "jvm" in stopped, stopped
    until(lambda: unread_bytes(stopped["port"]) >= stopped["size"], "the commit to be sent to the stopped JVM")
    os.kill(zombie.process.pid, signal.SIGKILL)
    zombie.process.wait(30)
    rerun.send(do="run", task="revenue", dates=["2026-06-09"], wait=60)
    table = project / "warehouse/shop/revenue"
    assert tokens(table) == []
    os.kill(stopped["jvm"], signal.SIGCONT)
    until(lambda: tokens(table), "the orphan's commit")
    os.kill(stopped["child"], signal.SIGKILL)  # now the orphan may leave, and its lock with it
    (end,) = rerun.receive()["ends"]
    assert end["outcome"] == "already published"
    assert tokens(table) == [("twice/proof/revenue/2026-06-09", 1)]
    assert len(rows(spark, table)) == 3
