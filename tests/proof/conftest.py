"""Projects and warm worker processes for the proofs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 90.0

TOML = 'project = "proof"\nlease_seconds = 2\n[spark]\nshort_jobs = true\n'
PIPELINE = """
import os, time
from pyspark.sql import functions as F
from twice import Daily, audit, read, replace, task

@task("shop.revenue", scope=Daily("order_date", start="2026-01-01"),
      inputs={"orders": read("shop.orders", by="order_date")}, write=replace(),
      audits=[audit.unique("order_date", "region"), audit.not_null("revenue")])
def revenue(orders):
    return orders.groupBy("order_date", "region").agg(F.sum("amount").alias("revenue"))
"""
SLOW = """
import os, time
from pyspark.sql import functions as F
from twice import Daily, read, replace, task

@F.udf("bigint")
def dwell(order_id):
    folder = os.environ.get("TWICE_TEST_DWELL")
    if folder and order_id == 8:
        open(os.path.join(folder, "reached"), "w").close()
        time.sleep(60)
    return order_id

@task("shop.copied", scope=Daily("order_date", start="2026-01-01"),
      inputs={"orders": read("shop.orders", by="order_date")}, write=replace())
def copied(orders):
    return orders.repartition(4, "order_id").withColumn("order_id", dwell("order_id"))
"""


class Worker:
    """One worker process; every wait is bounded."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def ready(self) -> Worker:
        assert self.hear() == {"ready": True}
        return self

    def tell(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the worker is silent"
        line = self.process.stdout.readline()
        assert line, "the worker is gone"
        return json.loads(line)

    def run(self, task: str, *dates: str, **options: Any) -> list[dict[str, Any]]:
        self.tell(do="run", task=task, dates=dates, **options)
        ends: list[dict[str, Any]] = self.hear()["ends"]
        return ends

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def until(happened: Callable[[], Any], what: str) -> None:
    """Wait, bounded, for something another process does."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.05)


@pytest.fixture
def project(tmp_path: Path, spark: Any) -> Path:
    """A project with forty days of orders: three regions, a few orders each."""
    root = tmp_path / "shop"
    (root / "pipelines").mkdir(parents=True)
    (root / "twice.toml").write_text(TOML)
    (root / "pipelines" / "revenue.py").write_text(PIPELINE)
    (root / "pipelines" / "copied.py").write_text(SLOW)
    (
        spark.range(800)
        .selectExpr(
            "id AS order_id",
            "date_add(DATE'2026-06-01', CAST(id % 40 AS INT)) AS order_date",
            "element_at(array('EU','US','APAC'), CAST(id % 3 + 1 AS INT)) AS region",
            "CAST(id % 97 + 0.25 AS DECIMAL(12,2)) AS amount",
        )
        .coalesce(1)
        .write.format("delta")
        .partitionBy("order_date")
        .save(str(root / "warehouse" / "shop" / "orders"))
    )
    return root


@pytest.fixture
def two_workers(project: Path) -> Iterator[tuple[Worker, Worker]]:
    workers = (Worker(project), Worker(project))
    try:
        yield workers[0].ready(), workers[1].ready()
    finally:
        for worker in workers:
            worker.end()
