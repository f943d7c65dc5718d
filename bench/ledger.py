"""The ledger under load: claims by four processes at once, and the ledger's pages over 100,000 runs.

The other side is the goal, not a program: 500 claims a second on PostgreSQL and 200 on SQLite, a second for a page.
Both databases are durable: SQLite with `synchronous=FULL`, PostgreSQL with its own defaults. A claim takes a slice
nobody holds, as a worker of a backfill does; a page is the whole command, from the shell's call to its last line.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from multiprocessing import get_context
from pathlib import Path

from bench.measuring import Row, arguments, report
from sqlalchemy import insert
from tests.postgres_server import PostgresServer

from twice.core.ledger.record import Claim, ClaimRequest
from twice.ledgers.database.connect import for_writing
from twice.ledgers.database.schema import attempts, runs, slices
from twice.ledgers.ledger import Ledger

WORKERS = 4
SECONDS = 5.0
RUNS = 100_000
DAY_ONE = datetime(2000, 1, 1, tzinfo=timezone.utc)
PIPELINE = """
from pyspark.sql import functions as F
from twice import Hourly, read, replace, task

@task("shop.sales", scope=Hourly("at", start="2000-01-01T00"), inputs={"orders": read("shop.orders", by="at")},
      write=replace())
def sales(orders):
    return orders.groupBy("at").agg(F.sum("amount").alias("amount"))
"""


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    rows: list[Row] = []
    server = PostgresServer.start(settings={})
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, url, goal in (
                ("SQLite", f"sqlite:///{root}/claims.db", 200),
                ("PostgreSQL", server.fresh_database(), 500),
            ):
                rate = statistics.median(claims_per_second(url, turn) for turn in range(options.rounds))
                print(f"{name}: {rate:.0f} claims a second by {WORKERS} processes", flush=True)
                rows.append(Row(f"1,000 claims, {name}, against {goal}/s", 1000 / rate, 1000 / goal, 1.0))
            for name, url in (("SQLite", f"sqlite:///{root}/pages.db"), ("PostgreSQL", server.fresh_database())):
                rows += pages(root / name, name, url, options.rounds)
    finally:
        server.remove()
    report(rows, options.json)


def claims_per_second(url: str, turn: int) -> float:
    """Each process opens the ledger, says so, and then claims until its time is over."""
    Ledger.open(url).close()
    spawning = get_context("spawn")
    ready = spawning.Barrier(WORKERS)
    counted = spawning.Queue()
    workers = [spawning.Process(target=_claim, args=(url, f"{turn}-{n}", ready, counted)) for n in range(WORKERS)]
    for worker in workers:
        worker.start()
    rates = [counted.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    return float(sum(rates))


def _claim(url: str, name: str, ready: object, counted: object) -> None:
    ledger = Ledger.open(url)
    ready.wait()  # type: ignore[attr-defined]
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        attempt = f"{name}-{count}"
        held = ledger.claim(ClaimRequest("task", [attempt], attempt, "run", name), timedelta(minutes=5))
        assert isinstance(held, Claim)
        count += 1
    counted.put(count / (time.perf_counter() - began))  # type: ignore[attr-defined]
    ledger.close()


def pages(root: Path, name: str, url: str, rounds: int) -> Iterator[Row]:
    """A ledger with 100,000 published runs of one task, looked at by the command line."""
    (root / "pipelines").mkdir(parents=True)
    (root / "pipelines" / "sales.py").write_text(PIPELINE)
    (root / "twice.toml").write_text(f'project = "bench"\nledger = "{url}"\n')
    _fill(url)
    for arguments_ in (["status"], ["history", "sales"], ["history", "sales", "--date", "2005-01-01T00"]):
        took = []
        for turn in range(rounds + 1):
            began = time.perf_counter()
            command = [sys.executable, "-m", "twice", *arguments_, "--project", str(root)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            took += [time.perf_counter() - began] if turn else []
        yield Row(f"{' '.join(arguments_)}, {RUNS:,} runs, {name}", statistics.median(took), 1.0, 1.0)


def _fill(url: str) -> None:
    ledger = Ledger.open(url)
    labels = [(DAY_ONE + timedelta(hours=n)).strftime("%Y-%m-%dT%H") for n in range(RUNS)]
    with for_writing(ledger._engine).begin() as connection:
        connection.execute(insert(attempts), [_attempt(fence) for fence in range(1, RUNS + 1)])
        by_slice = [{"fence": n, "label": label, "task": "sales", "rows": 7} for n, label in enumerate(labels, 1)]
        connection.execute(insert(slices), by_slice)
        connection.execute(insert(runs), [_run(fence, label) for fence, label in enumerate(labels, 1)])
    with ledger._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # As autovacuum does within a minute on a server that is left alone.
        connection.exec_driver_sql("ANALYZE")
    ledger.close()


def _attempt(fence: int) -> dict[str, object]:
    base = {"task": "sales", "kind": "run", "state": "published", "holder": "host:1", "discarded": False}
    return {**base, "fence": fence, "id": f"{fence:032x}", "started": DAY_ONE, "finished": DAY_ONE}


def _run(fence: int, label: str) -> dict[str, object]:
    base = {"task": "sales", "generation": 1, "rows": 7, "fingerprint": "f" * 32, "version": fence}
    return {**base, "label": label, "attempt": f"{fence:032x}", "published": DAY_ONE, "last_fence": fence}


if __name__ == "__main__":
    main()
