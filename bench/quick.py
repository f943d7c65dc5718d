"""What there is nothing to do for, answered from logs, server and ledger: the whole command, against the full way.

The other side is the same command, made to take the full way, which starts Spark. Both record what they found.
`python -c pass` is measured in each round, too: it says how busy the machine was.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measuring import Row, arguments, report
from tests.postgres_server import PostgresServer

GOAL = 0.15
DAY, LAST = "2026-06-01", "2026-06-10"
TOML = """
project = "bench"
[connections.server]
url = "${env:BENCH_URL}"
"""
PIPELINE = """
from pyspark.sql import functions as F
from twice import Daily, Since, insert_new, read, replace, task

DAILY = Daily("day", start="2026-01-01")

@task("shop.orders", scope=DAILY, write=replace(), inputs={"files": read.files(
    "landing/{ds}.csv", format="csv", options={"header": True}, schema="id BIGINT, day DATE, amount BIGINT")})
def orders(files):
    return files

@task("server:shop.served", scope=DAILY, inputs={"orders": read("shop.orders", by="day")}, write=replace())
def served(orders):
    return orders.groupBy("day").agg(F.sum("amount").alias("amount"))

@task("shop.copied", scope=Since("id", initial=0), inputs={"orders": read("shop.orders", by="id")},
      write=insert_new("id"))
def copied(orders):
    return orders
"""
COMMANDS = (
    ("run", "orders", "--date", DAY),
    ("run", "served", "--date", DAY),
    ("run", "copied"),
    ("run", "--all", "--date", DAY),
    ("plan", "orders", "--date", DAY),
    ("backfill", "served", "--from", DAY, "--to", LAST),
    ("status", "--refresh"),
)
FULL = """
import twice.wiring.open_project as opening
opening.spark_is_running = lambda: True
from twice.__main__ import main
main()
"""


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    server = PostgresServer.start()
    try:
        with tempfile.TemporaryDirectory(prefix="twice-bench-") as folder:
            os.environ["BENCH_URL"] = server.fresh_database()
            report(measured(Path(folder), options.rounds), options.json)
    finally:
        server.remove()


def measured(root: Path, rounds: int) -> list[Row]:
    make(root)
    nothing, rows = list[float](), list[Row]()
    for command in COMMANDS:
        quick, full = list[float](), list[float]()
        for turn in range(rounds + 1):
            nothing.append(seconds((sys.executable, "-c", "pass"), root))
            took = seconds((sys.executable, "-m", "twice", *command), root)
            in_full = seconds((sys.executable, "-c", FULL, *command), root)
            if turn:  # the first compiles
                quick.append(took)
                full.append(in_full)
        rows.append(Row(" ".join(command), statistics.median(quick), statistics.median(full), GOAL))
    print(f"python -c pass: {statistics.median(nothing):.3f} s")
    return rows


def make(root: Path) -> None:
    """Ten days that are published and found right by a full run, and a mark with nothing after it."""
    days = [f"2026-06-{number:02}" for number in range(1, 11)]
    (root / "landing").mkdir()
    (root / "pipelines").mkdir()
    for number, day in enumerate(days):
        (root / "landing" / f"{day}.csv").write_text(f"id,day,amount\n{number},{day},5\n")
    (root / "pipelines" / "shop.py").write_text(PIPELINE)
    (root / "twice.toml").write_text(TOML)
    for name in ("orders", "served"):
        seconds((sys.executable, "-m", "twice", "backfill", name, "--from", DAY, "--to", LAST), root)
    for _ in range(2):
        seconds((sys.executable, "-m", "twice", "run", "copied"), root)


def seconds(command: Sequence[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
