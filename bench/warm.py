"""Whole commands, each in a process of its own: a small day in a warm Spark against a script that starts its own, and a
published day that is answered without Java against one that only Spark can answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.measuring import Row, arguments, interleaved, report
from bench.measuring.project import MeasuredProject, measured_project
from bench.spine import HAND_WRITTEN, SAME_SETTINGS, Bench

PIPELINE = """
from pathlib import Path
from twice import Daily, audit, read, replace, task

DAILY = Daily("order_date", start="2026-01-01")
SMALL = {"orders": read("shop.small_orders", by="order_date")}
CHEAP = [audit.not_null("order_id", "amount"), audit.between("amount", 0, 100000), audit.rows(at_least=1)]

@task("shop.small", scope=DAILY, inputs=SMALL, write=replace(), audits=CHEAP)
def small(orders):
    return orders

@task("shop.opened", scope=DAILY, inputs=SMALL, write=replace(), audits=CHEAP)
def opened(orders):
    return orders.where(Path(__file__).with_name("condition.txt").read_text())
"""
"""`opened` reads a file: what it makes of it, only the plan can say."""


def twice(root: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "twice", *words], cwd=root, check=True, capture_output=True)


def small_day(project: MeasuredProject, rounds: int) -> Row:
    conf = {name: project.spark.conf.get(name) for name in SAME_SETTINGS}
    script = project.root / "by_hand.py"
    script.write_text(HAND_WRITTEN)

    def ours(index: int) -> None:
        twice(project.root, "restate", "small", "--date", f"2026-05-{index + 1:02d}")

    def by_hand(index: int) -> None:
        day, source = f"2026-05-{index + 1:02d}", project.table("small_orders")
        words = [sys.executable, "-W", "ignore", str(script), repr(conf), source, project.table("hand"), day]
        subprocess.run(words, check=True, capture_output=True)

    twice(project.root, "warm")
    try:
        return Row("a small day in a warm Spark, vs a cold script", *interleaved(ours, by_hand, rounds), 0.25)
    finally:
        twice(project.root, "warm", "stop")


def published_day(project: MeasuredProject, rounds: int) -> Row:
    for task in ("small", "opened"):
        twice(project.root, "run", task, "--date", "2026-05-01")
    quick, full = (
        lambda _, task=task: twice(project.root, "run", task, "--date", "2026-05-01") for task in ("small", "opened")
    )
    return Row("already published, without Java, vs the full way", *interleaved(quick, full, rounds), 0.15)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    with measured_project(PIPELINE) as project:
        (project.root / "pipelines" / "condition.txt").write_text("amount >= 0")
        Bench(project.root, project.opened, rows=1).make_orders()
        rows = [small_day(project, options.rounds), published_day(project, options.rounds)]
    report(rows, options.json)


if __name__ == "__main__":
    main()
