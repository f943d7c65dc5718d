"""The long proof of the PostgreSQL target: hundreds of real kills and races, all without Spark, with a result file.

python -m tests.soak.postgres --kills 300 --races 50 --seed 1
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.postgres_server import PostgresServer
from tests.processes.postgres_forks_process import Forks
from tests.proof.postgres_shop import TASKS, ask, wrong
from tests.soak.result_file import keep, of_this_source

from twice.core.failure.failpoints import Point


class Soak:
    def __init__(self, forks: Forks, seed: int) -> None:
        self.forks = forks
        self.choice = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.days = dict.fromkeys(TASKS, 0)

    def kill(self, name: str, point: Point | None) -> None:
        """At a failpoint, or (without one) at a moment of the seed's choice."""
        index = self.days[name]
        if point is not None:
            status = self.forks.send(do="run", task=name, day=index, kill=point.value)["status"]
        else:
            status = self.forks.send(do="run", task=name, day=index, after=self.choice.uniform(0.05, 0.8))["status"]
        where = point.value if point else "any moment"
        self.counts[f"killed at {where}" if status == -signal.SIGKILL else "done before the kill"] += 1
        if point is not None and status != -signal.SIGKILL:
            self.violations.append(f"{name}: was to die at {where}, ended with {status}")
        self.forks.rerun(name, index)
        self.days[name] += 1
        found = wrong(self.forks.url, {name: self.days[name]})
        self.violations += [f"{name} {index}, killed at {where}: {each}" for each in found]

    def race(self, number: int, racers: int) -> None:
        ends = self.forks.send(do="race", round=number, racers=racers)["ends"]
        self.counts[f"races of {racers}"] += 1
        if sorted(end["end"] for end in ends) != ["Landed"] + ["Lost"] * (racers - 1):
            self.violations.append(f"race {number}: {ends}")
            return
        (winner,) = [end["number"] for end in ends if end["end"] == "Landed"]
        rows = ask(self.forks.url, f"SELECT amount FROM shop.raced WHERE order_date = DATE '2026-01-01' + {number}")
        if rows != [(winner,)] * (winner + 1):
            self.violations.append(f"race {number}: {winner} won, the table has {rows}")


def soak(kills: int, races: int, seed: int) -> dict[str, Any]:
    started, server = time.monotonic(), PostgresServer.start()
    try:
        with tempfile.TemporaryDirectory(prefix="twice-soak-") as folder:
            forks = Forks(server.fresh_database(), Path(folder) / "ledger.db")
            run = Soak(forks, seed)
            # Every failpoint with every way to write, then the same number of kills at any moment, and so on.
            plan = cycle([*((n, p) for p in Point for n in TASKS), *((n, None) for _ in range(8) for n in TASKS)])
            while sum(n for what, n in run.counts.items() if what.startswith("killed")) < kills:
                run.kill(*next(plan))
            for number in range(races):
                run.race(number, 2 if number % 2 else 8)
            forks.end()
    finally:
        server.remove()
    return {
        "what": "SIGKILL at failpoints and at any moment, then races for one slice, on PostgreSQL without Spark",
        **of_this_source(),
        "seed": seed,
        "counts": dict(run.counts),
        "violations": run.violations,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--races", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = soak(options.kills, options.races, options.seed)
    keep("postgres.json", result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
