"""What a small command costs before it does anything: the processor's time of the whole process, by command.

The other side is the goal of 0.7 s. `python -c pass` is measured in each round, too: it says how busy the machine was.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measuring import Row, arguments, report

GOAL = 0.7
PIPELINE = """
from pyspark.sql import functions as F
from twice import Daily, read, replace, task

@task("shop.revenue", scope=Daily("day", start="2026-01-01"), inputs={"orders": read("shop.orders", by="day")},
      write=replace())
def revenue(orders):
    return orders.groupBy("day").agg(F.sum("amount").alias("revenue"))
"""
COMMANDS = ("history revenue", "effects list", "status", "graph", "lint pipelines/revenue.py")
NOTHING = (sys.executable, "-c", "pass")


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory(prefix="twice-bench-") as folder:
        root = Path(folder)
        (root / "pipelines").mkdir()
        (root / "pipelines" / "revenue.py").write_text(PIPELINE)
        (root / "twice.toml").write_text('project = "bench"\n')
        ours = {each: (sys.executable, "-m", "twice", *each.split()) for each in COMMANDS}
        took: dict[str, list[float]] = {name: [] for name in ("", *ours)}
        for turn in range(options.rounds + 1):
            for name, command in {"": NOTHING, **ours}.items():
                seconds = processor_seconds(command, root)
                took[name] += [seconds] if turn else []  # the first compiles, and makes the ledger
    print(f"python -c pass: {statistics.median(took['']):.3f} s")
    report([Row(f"{name}, processor", statistics.median(took[name]), GOAL, 1.0) for name in ours], options.json)


def processor_seconds(command: tuple[str, ...], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
