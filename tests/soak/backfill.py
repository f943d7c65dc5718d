"""The long proof of backfills: a year of days with three workers, one of them killed again and again.

    make soak SEED=1

Workers are real `twice worker` processes with their own JVMs. At random moments one of them is killed with SIGKILL
and another is started in its place; now and then the backfill is paused or cancelled, and resumed. In the end every
slice must be published exactly once and the table be what a clean computation gives. The result goes to
docs/proof/backfill.json.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from tests.processes.twice_worker import TwiceWorker
from tests.proof.project_files import put_orders, write_project
from tests.proof.tables import loose_files, rows, tokens
from tests.soak.result_file import keep, of_this_source

from twice.config import load
from twice.core.backfill.plan import BackfillRequest
from twice.project import backfill as backfills
from twice.project import upkeep
from twice.wiring.open_project import OpenProject

DAYS, WORKERS, PATIENCE = 365, 3, 3 * 3600.0
YEAR = BackfillRequest("revenue", "2026-06-01", "2027-05-31", batch=5)


class Soak:
    """A violation never stops the soak."""

    def __init__(self, root: Path, opened: OpenProject, choice: random.Random) -> None:
        self.root, self.opened, self.choice = root, opened, choice
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []

    def carry_out(self, kills: int) -> None:
        record, _ = backfills.start(self.opened, YEAR, "year")
        workers = [TwiceWorker(self.root, "year") for _ in range(WORKERS)]
        deadline, done = time.monotonic() + PATIENCE, 0
        try:
            while not record.complete and time.monotonic() < deadline:
                # Wait for a little progress, a different one each time, then strike.
                wanted = done + self.choice.randint(1, max(1, 2 * DAYS // kills))
                record = self._until(workers, wanted, deadline)
                done = record.done
                if self.counts["workers killed"] < kills and not record.complete:
                    self._strike(workers)
            if not record.complete:
                self.violations.append(f"{record.done} of {record.total} slices are done after {PATIENCE:.0f} s")
        finally:
            for worker in workers:
                worker.kill()

    def _until(self, workers: list[TwiceWorker], wanted: int, deadline: float) -> Any:
        while True:
            record = backfills.record(self.opened, "year")
            if record.done >= wanted or record.complete or time.monotonic() > deadline:
                return record
            for at, worker in enumerate(workers):
                if worker.ended and not backfills.record(self.opened, "year").complete:
                    self.counts["workers started again"] += 1
                    workers[at] = TwiceWorker(self.root, "year")
            time.sleep(0.1 + self.choice.random() / 2)

    def _strike(self, workers: list[TwiceWorker]) -> None:
        if self.choice.random() < 0.4:
            stop, state = self.choice.choice([(backfills.pause, "paused"), (backfills.cancel, "cancelled")])
            stop(self.opened, "year")
            time.sleep(self.choice.random() * 2)
            backfills.resume(self.opened, "year")
            self.counts[f"{state} and resumed"] += 1
        at = self.choice.randrange(len(workers))
        holds = workers[at].holds_one_of(backfills.holders(self.opened, "year"))
        workers[at].kill()
        self.counts["workers killed"] += 1
        self.counts["killed with a batch in hand"] += holds
        workers[at] = TwiceWorker(self.root, "year")

    def check(self) -> None:
        spark, table = self.opened.spark, self.root / "warehouse/shop/revenue"
        labels = [slice_.label for slice_ in backfills.show(self.opened, "year").slices]
        if sorted(labels) != [(date(2026, 6, 1) + timedelta(days=at)).isoformat() for at in range(DAYS)]:
            self.violations.append("the plan is not the one that was frozen")
        wanted = sorted((f"twice/proof/revenue/{label}", 1) for label in labels)
        if sorted(tokens(table)) != wanted:
            twice_ = [token for token, count in Counter(app for app, _ in tokens(table)).items() if count > 1]
            self.violations.append(f"tokens differ: {len(tokens(table))} for {len(wanted)} slices, twice: {twice_[:3]}")
        orders = spark.read.format("delta").load(str(self.root / "warehouse/shop/orders"))
        sums = orders.groupBy("order_date", "region").agg({"amount": "sum"})
        if rows(spark, table) != sorted(tuple(row) for row in sums.collect()):
            self.violations.append("the table is not what a clean computation gives")
        upkeep.gc(self.opened)
        if loose_files(table):
            self.violations.append(f"files that no commit refers to: {loose_files(table)[:3]}")
        if self.opened.ledger.open_attempts():
            self.violations.append("attempts are open in the ledger")
        self.counts["slices published exactly once"] = len(labels)


def soak(kills: int, seed: int) -> dict[str, Any]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twice-soak-") as folder:
        root = Path(folder) / "shop"
        write_project(root)
        opened = OpenProject(load(root))
        put_orders(opened.spark, root, DAYS)
        run = Soak(root, opened, random.Random(seed))
        run.carry_out(kills)
        run.check()
        opened.close()
    return {
        "what": f"{DAYS} slices, {WORKERS} workers, killed at random",
        **of_this_source(),
        "seed": seed,
        "counts": dict(run.counts),
        "violations": run.violations,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=15, help="how many workers are killed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = soak(options.kills, options.seed)
    keep("backfill.json", result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
