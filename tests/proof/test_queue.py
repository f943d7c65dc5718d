"""Eight workers, two thousand items, workers killed at random, the server restarted in mid-run: each item once."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.postgres_server import PostgresServer
from tests.processes.command import ROOT, command
from tests.processes.queue_workers import open_queue

from twice import WorkQueue
from twice.ledgers.database.clock import database_time
from twice.queues import item_table
from twice.queues.item import ItemStatus, body_text

ITEMS = 2_000
PATIENCE = 240
"""Half a minute on two idle cores; the machine may be busy."""

SEED = 20260609


@pytest.mark.kill
@pytest.mark.timeout(PATIENCE + 60)
def test_on_postgres_each_item_is_done_once_though_workers_die_and_the_server_restarts(
    postgres: PostgresServer, database: str
) -> None:
    with open_queue(database) as queue:
        fill(queue)
        workers = start(database)
        deadline = time.monotonic() + PATIENCE
        while queue.counts()[ItemStatus.DONE] < ITEMS // 3:
            assert workers.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        before = postgres.pid
        postgres.restart(immediate=True)
        assert postgres.pid != before
        assert queue.counts()[ItemStatus.DONE] < ITEMS, "the restart came too late to prove anything"
        reports = end(workers)
        check(queue, reports)


@pytest.mark.kill
@pytest.mark.timeout(PATIENCE + 60)
def test_on_sqlite_each_item_is_done_once_though_workers_die(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with open_queue(url) as queue:
        fill(queue)
        check(queue, end(start(url)))


def fill(queue: WorkQueue) -> None:
    with queue.connect() as connection:
        connection.execute(text("CREATE TABLE effects (item TEXT NOT NULL, worker INTEGER NOT NULL)"))
        now = database_time(connection)
        for number in range(ITEMS):  # in one transaction, for speed
            item_table.put(connection, queue.name, f"item-{number}", body_text({"number": number}), now)
    assert not queue.put("item-7", {"number": 7})


def start(url: str) -> subprocess.Popen[str]:
    workers = command("queue_workers", url, str(SEED))
    return subprocess.Popen(workers, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(workers: subprocess.Popen[str]) -> dict[str, list[int]]:
    out, err = workers.communicate(timeout=PATIENCE)
    assert workers.returncode == 0, err
    reports: dict[str, list[int]] = json.loads(out)
    return reports


def check(queue: WorkQueue, reports: dict[str, list[int]]) -> None:
    with queue.connect() as connection:
        effects = connection.execute(text("SELECT item, worker FROM effects")).all()
        again = connection.execute(text("SELECT count(*) FROM twice_items WHERE attempts > 1")).scalar_one()
    times = Counter(Counter(row.item for row in effects).values())
    assert times == {1: ITEMS}, times
    assert queue.counts() == {**dict.fromkeys(ItemStatus, 0), ItemStatus.DONE: ITEMS}
    assert reports["kills"] >= 15, reports  # type: ignore[operator]
    assert set(reports["ends"]) == {0}, reports
    assert again >= 3, "no kill hit a worker with an item in hand"
    assert len({row.worker for row in effects}) > 8
