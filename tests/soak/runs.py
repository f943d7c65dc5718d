"""The long proof: a real SIGKILL at every failpoint, and double fires, round after round, with a result file.

    make soak ROUNDS=50 SEED=1

Each round kills one process at each failpoint on its own day and reruns it, and fires two processes at one slice with
the lease lost. After each, the table must be what a clean run leaves: one token per slice, the same rows, no file
that no commit refers to. The result goes to docs/proof/spine.json.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from tests.processes.worker_process import Worker
from tests.proof.project_files import put_orders, write_project
from tests.proof.tables import loose_files, rows, tokens
from tests.soak.result_file import keep, of_this_source

from twice.config import load
from twice.core.failure.failpoints import Point
from twice.core.results.run import RunRequest
from twice.project import run as runs
from twice.wiring.open_project import OpenProject

FIRST = date(2026, 6, 1)
DAYS = 400


class Soak:
    """Counts what was done and what was wrong; a violation never stops the soak."""

    def __init__(self, root: Path, opened: OpenProject) -> None:
        self.root = root
        self.opened = opened
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.table = root / "warehouse" / "shop" / "revenue"
        self.published: list[str] = []

    def kill_everywhere(self, days: Iterator[str]) -> None:
        for point in Point:
            day = next(days)
            environment = {**os.environ, "TWICE_FAILPOINT": point.value}
            command = [sys.executable, "-m", "twice", "run", "revenue", "--date", day, "--project", str(self.root)]
            code = subprocess.run(
                command, env=environment, capture_output=True, start_new_session=True, timeout=300, check=False
            ).returncode
            self.counts[f"killed at {point.value}"] += code == -signal.SIGKILL
            if code != -signal.SIGKILL:
                self.violations.append(f"{day}: was to die at {point.value}, ended with {code}")
            self.rerun(day)

    def rerun(self, day: str) -> None:
        runs.run(
            self.opened, "revenue", runs.slices(self.opened, "revenue", day), RunRequest("run", timedelta(seconds=60))
        )
        self.published.append(day)
        self.check(f"after {day}")

    def fire_twice(self, first: Worker, second: Worker, day: str, before_first: bool) -> None:
        """Both are at the publish when they are let go; who goes first is the seed's choice."""
        first.send(do="run", task="revenue", dates=[day], pause="publishing", heartbeat=False)
        first.receive()
        second.send(do="run", task="revenue", dates=[day], pause="publishing", wait=60)
        second.receive()
        for worker in (first, second) if before_first else (second, first):
            worker.send(go=True)
        ends = [first.receive()["ends"][0], second.receive()["ends"][0]]
        self.published.append(day)
        self.counts["double fires"] += 1
        if sorted(str(end.get("outcome")) for end in ends) != ["already published", "published"]:
            self.violations.append(f"{day}: fired twice and ended with {ends}")
        self.check(f"after a double fire on {day}")

    def check(self, when: str) -> None:
        found = tokens(self.table)
        wanted = [(f"twice/proof/revenue/{day}", 1) for day in self.published]
        if sorted(found) != sorted(wanted):
            self.violations.append(f"{when}: tokens {found[-3:]} instead of {wanted[-3:]}")
        loose = loose_files(self.table)
        if loose:
            self.violations.append(f"{when}: files that no commit refers to: {loose[:3]}")
        self.counts["checks"] += 1

    def check_rows(self) -> None:
        """Every published day against a plain computation from the source."""
        spark = self.opened.spark
        orders = spark.read.format("delta").load(str(self.root / "warehouse/shop/orders"))
        listed = ", ".join(f"DATE'{day}'" for day in self.published)
        sums = orders.where(f"order_date IN ({listed})").groupBy("order_date", "region").agg({"amount": "sum"})
        clean = sorted(tuple(row) for row in sums.collect())
        if rows(spark, self.table) != clean:
            self.violations.append("the table is not what a clean run leaves")
        self.counts["days compared with a plain computation"] = len(self.published)


@contextmanager
def two_workers(root: Path) -> Iterator[tuple[Worker, Worker]]:
    workers = Worker(root), Worker(root)
    try:
        yield workers[0].ready(), workers[1].ready()
    finally:
        for worker in workers:
            worker.end()


def days() -> Iterator[str]:
    for offset in range(DAYS):
        yield (FIRST + timedelta(days=offset)).isoformat()


def soak(rounds: int, kills: int, seed: int) -> dict[str, Any]:
    started, choice = time.monotonic(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="twice-soak-") as folder:
        root = Path(folder) / "shop"
        write_project(root)
        opened = OpenProject(load(root))
        put_orders(opened.spark, root, DAYS)
        run = Soak(root, opened)
        calendar = days()
        for _ in range(kills):
            run.kill_everywhere(calendar)
        with two_workers(root) as (first, second):
            for _ in range(rounds):
                run.fire_twice(first, second, next(calendar), choice.random() < 0.5)
        run.check_rows()
        opened.close()
    return {
        "what": "SIGKILL at every failpoint, then double fires with the lease lost",
        **of_this_source(),
        "seed": seed,
        "counts": dict(run.counts),
        "violations": run.violations,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="double fires")
    parser.add_argument("--kills", type=int, default=1, help="walks through all failpoints with a real SIGKILL")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = soak(options.rounds, options.kills, options.seed)
    keep("spine.json", result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
