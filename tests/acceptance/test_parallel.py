"""Several tasks at once on one Spark session: they overlap, wait for what they read from, and are stopped together."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from tests.sample import sample

from twice.core.ledger.record import AttemptState
from twice.wiring.open_project import open_project

from .conftest import Shop

DAY = ("--date", "2026-06-09")
PATIENCE = 60.0

# Each of a pair waits until the other one is computing as well: one after another, neither would ever end.
PAIRED = """
    import time
    from pathlib import Path
    from twice import Daily, read, replace, task

    def pair(run, name, other):
        (run.root / name).touch()
        until = time.monotonic() + 60
        while not (run.root / other).exists():
            assert time.monotonic() < until, f"{other} was not begun"
            time.sleep(0.05)

    DAYS = Daily("order_date", start="2026-01-01")
    ORDERS = {"orders": read("shop.orders", by="order_date")}

    @task("shop.left", scope=DAYS, inputs=ORDERS, write=replace(), tags=("finance",))
    def left(orders, run):
        pair(run, "left", "right")
        return orders

    @task("shop.right", scope=DAYS, inputs=ORDERS, write=replace(), tags=("finance",))
    def right(orders, run):
        pair(run, "right", "left")
        return orders

    @task("shop.broken", scope=DAYS, inputs=ORDERS, write=replace())
    def broken(orders):
        raise ValueError("no")

    @task("shop.after", scope=DAYS, inputs={"left": read("shop.left", by="order_date")}, write=replace())
    def after(left):
        return left

    @task("shop.never", scope=DAYS, inputs={"broken": read("shop.broken", by="order_date")}, write=replace())
    def never(broken):
        return broken
"""

SLOW = """
    from pyspark.sql import functions as F
    from twice import Daily, read, replace, task

    def long(orders):
        # Hours of work for Spark, which is begun by who asks for its rows.
        return orders.sparkSession.range(0, 10**13, 1, 2).agg(F.max("id").alias("many"))

    DAYS = Daily("order_date", start="2026-01-01")
    ORDERS = {"orders": read("shop.orders", by="order_date")}

    @task("shop.in_the_task", scope=DAYS, inputs=ORDERS, write=replace())
    def in_the_task(orders, run):
        (run.root / "in_the_task").touch()
        return orders.limit(long(orders).collect()[0].many)

    @task("shop.in_stage", scope=DAYS, inputs=ORDERS, write=replace())
    def in_stage(orders, run):
        (run.root / "in_stage").touch()
        return orders.crossJoin(long(orders))

    @task("shop.later", scope=DAYS, inputs={"above": read("shop.in_stage", by="order_date")}, write=replace())
    def later(above):
        return above
"""


def test_tasks_overlap_and_a_failed_one_stops_only_what_reads_from_it(stocked: Shop) -> None:
    (stocked.root / "pipelines/revenue.py").unlink()
    stocked.write("pipelines/pairs.py", PAIRED)
    answer = stocked.call("run", "--all", *DAY, "--parallel", "3", "--output", "json")
    assert answer.code == 1, answer.out
    tasks = {end["task"]: end for end in answer.data["tasks"]}
    assert {name for name, end in tasks.items() if end["results"]} == {"left", "right", "after"}
    assert tasks["broken"]["error"]["code"] == "user-code"
    assert tasks["never"]["waits_for"] == "broken"
    with open_project(stocked.root) as opened:
        assert list(tasks) == [task.name for task in opened.project.in_order()]


def test_a_selection_runs_its_tasks_alone_in_the_order_of_the_graph(stocked: Shop) -> None:
    (stocked.root / "pipelines/revenue.py").unlink()
    stocked.write("pipelines/pairs.py", PAIRED)
    answer = stocked.call("run", "tag:finance+", *DAY, "--parallel", "2")
    assert answer.code == 0, answer.err
    ended = [line for line in answer.out.splitlines() if not line.startswith(" ")]
    assert sorted(ended[:2]) == [
        "left[2026-06-09]: published (generation 1, 3 rows, version 0)",
        "right[2026-06-09]: published (generation 1, 3 rows, version 0)",
    ]
    assert ended[2:] == ["after[2026-06-09]: published (generation 1, 3 rows, version 0)", "3 of 3 tasks are done"]
    again = stocked.call("run", "left", "right", *DAY)
    assert again.code == 0
    assert again.out.count("already published") >= 2
    assert again.out.splitlines()[-1] == "2 of 2 tasks are done"


BOTH = ("in_the_task", "in_stage")


@pytest.mark.parametrize(
    ("number", "code"), sample([(signal.SIGINT, 130), (signal.SIGTERM, 143)], of=[(signal.SIGTERM, 143)])
)
def test_a_signal_ends_every_task_and_frees_every_slice(stocked: Shop, number: signal.Signals, code: int) -> None:
    (stocked.root / "pipelines/revenue.py").unlink()
    stocked.write("pipelines/slow.py", SLOW)
    with stocked.start("run", "--all", *DAY, "--parallel", "2", "--output", "json") as process:
        try:
            until = time.monotonic() + PATIENCE
            while not all((stocked.root / name).exists() for name in BOTH):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < until, "they were not begun"
                time.sleep(0.05)
            os.kill(process.pid, number)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code, err
    assert json.loads(out)["error"]["what"] == "2 tasks were interrupted"
    with open_project(stocked.root) as opened:
        assert not opened.ledger.open_attempts()
        ends = [(each.state, (each.error or {}).get("what")) for name in BOTH for each in opened.ledger.attempts(name)]
        assert ends == [(AttemptState.FAILED, "interrupted")] * 2
        assert not opened.ledger.attempts("later")
