"""Two real processes at once: one commit, nobody lies about it.

All tests share the two, since each takes a JVM some time to start. The last test kills one of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.processes.worker_process import Worker
from tests.sample import sample

from .conftest import until
from .project_files import put_orders, write_project
from .tables import commits, rows, tokens

pytestmark = pytest.mark.kill


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Path:
    """Sixty days of orders: each test has its own days of the one table."""
    root = tmp_path_factory.mktemp("double-fire") / "shop"
    write_project(root)
    put_orders(spark, root, 60)
    return root


@pytest.fixture(scope="module")
def two_workers(project: Path) -> Iterator[tuple[Worker, Worker]]:
    workers = (Worker(project), Worker(project))
    try:
        yield workers[0].ready(), workers[1].ready()
    finally:
        for worker in workers:
            worker.end()


def tokens_of(table: Path, days: list[str]) -> list[tuple[str, int]]:
    """Those of these days, as `tokens` has them."""
    return [token for token in tokens(table) if token[0].rpartition("/")[2] in days]


@pytest.mark.long
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
    assert tokens_of(project / "warehouse/shop/revenue", ["2026-06-09"]) == [("twice/proof/revenue/2026-06-09", 1)]


@pytest.mark.timeout(400)
def test_with_the_lease_lost_one_commit_lands_and_the_loser_says_who_won(
    two_workers: tuple[Worker, Worker], project: Path
) -> None:
    first, second = two_workers
    dates = ["2026-06-01", "2026-06-02"]
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
    landed = tokens_of(project / "warehouse/shop/revenue", dates)
    assert landed == [(f"twice/proof/revenue/{day}", 1) for day in dates]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", sample([4, 40], of=[4]))
def test_two_processes_on_other_slices_of_one_table_lose_no_commit(
    two_workers: tuple[Worker, Worker], project: Path, spark: Any, number: int
) -> None:
    first, second = two_workers
    days = [str(date(2026, 6, 15) + timedelta(days=at)) for at in range(number)]
    first.send(do="run", task="revenue", dates=days[0::2])
    second.send(do="run", task="revenue", dates=days[1::2])
    ends = first.receive()["ends"] + second.receive()["ends"]
    assert [end.get("outcome") for end in ends] == ["published"] * number, ends
    table = project / "warehouse/shop/revenue"
    tokens_of_days = [(f"twice/proof/revenue/{day}", 1) for day in days]
    assert sorted(tokens_of(table, days)) == sorted(tokens_of_days)
    assert len([row for row in rows(spark, table) if str(row[0]) in days]) == 3 * number
    apps = {app for app, _ in tokens_of_days}
    assert len([c for c in commits(table) if any(a.get("txn", {}).get("appId") in apps for a in c)]) == number


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
    day = "2026-06-10"
    zombie.send(do="run", task="revenue", dates=[day], stop_jvm=True)
    stopped = zombie.receive()
    assert "jvm" in stopped, stopped
    until(lambda: unread_bytes(stopped["port"]) >= stopped["size"], "the commit to be sent to the stopped JVM")
    os.kill(zombie.process.pid, signal.SIGKILL)
    zombie.process.wait(30)
    rerun.send(do="run", task="revenue", dates=[day], wait=60)
    table = project / "warehouse/shop/revenue"
    assert tokens_of(table, [day]) == []
    os.kill(stopped["jvm"], signal.SIGCONT)
    until(lambda: tokens_of(table, [day]), "the orphan's commit")
    os.kill(stopped["child"], signal.SIGKILL)  # now the orphan may leave, and its lock with it
    (end,) = rerun.receive()["ends"]
    assert end["outcome"] == "already published"
    assert tokens_of(table, [day]) == [(f"twice/proof/revenue/{day}", 1)]
    assert len([row for row in rows(spark, table) if str(row[0]) == day]) == 3
