"""Backfills as a user meets them: on real Spark and real Delta, through the command line and from Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.tiny_queries import SPARK_TOML

import twice
from twice.core.backfill.plan import BackfillRequest
from twice.errors import UsageError
from twice.project import backfill as backfills
from twice.wiring.open_project import open_project

from .conftest import Shop

PIPELINE = """
from pyspark.sql import functions as F
from twice import Daily, Monthly, audit, read, replace, task

@task("shop.revenue_daily", scope=Daily("order_date", start="2026-01-01", batch=True),
      inputs={"orders": read("shop.orders", by="order_date")}, write=replace(),
      audits=[audit.unique("order_date", "region"), audit.between("revenue", 0, 100000)])
def revenue_daily(orders):
    return orders.groupBy("order_date", "region").agg(F.sum("amount").alias("revenue"))

@task("shop.revenue_monthly", scope=Monthly("order_date", start="2026-01"),
      inputs={"days": read("shop.revenue_daily", by="order_date")}, write=replace())
def revenue_monthly(days):
    month = F.trunc("order_date", "month").alias("order_date")
    return days.groupBy(month).agg(F.sum("revenue").alias("revenue"))
"""
BACKFILL = ("backfill", "revenue_daily", "--from", "2026-02-26", "--to", "2026-03-04")
DAYS = ["2026-02-26", "2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]


@pytest.fixture
def stocked(shop: Shop, put_orders: Callable[..., None]) -> Shop:
    shop.write("pipelines/revenue.py", PIPELINE)
    put_orders(shop, *((n, day, "EU", f"{n}.00") for n, day in enumerate(DAYS, start=1)))
    return shop


def revenue(spark: Any, shop: Shop, table: str = "revenue_daily") -> dict[str, str]:
    rows = spark.read.format("delta").load(str(shop.warehouse / "shop" / table)).collect()
    return {str(row.order_date): str(row.revenue) for row in rows}


def change(spark: Any, shop: Shop, day: str, amount: str) -> None:
    """Another system corrects one day of the orders."""
    row = spark.sql(f"SELECT 99L AS order_id, DATE'{day}' AS order_date, 'EU' AS region, {amount}BD AS amount")
    (
        row.selectExpr("order_id", "order_date", "region", "CAST(amount AS DECIMAL(12,2)) AS amount")
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"order_date = '{day}'")
        .save(str(shop.warehouse / "shop" / "orders"))
    )


def commits(shop: Shop, table: str = "revenue_daily") -> int:
    return len(list((shop.warehouse / "shop" / table / "_delta_log").glob("*.json")))


@pytest.mark.long
def test_a_range_with_its_months_is_planned_shown_and_published_in_two_kinds_of_commits(
    stocked: Shop, spark: Any
) -> None:
    planned = stocked.call(*BACKFILL, "--with-downstream", "--dry-run").out
    assert "revenue_daily[2026-02-26..2026-03-04]  7 slices  missing: never published" in planned
    assert "revenue_monthly[2026-02..2026-03]  2 slices  downstream: it reads revenue_daily" in planned
    assert "no backfill yet" in stocked.call("backfill", "list").out
    done = stocked.call(*BACKFILL, "--with-downstream")
    assert done.code == 0, done.err
    assert "9 of 9 slices are done" in done.out
    assert revenue(spark, stocked) == {day: f"{n}.00" for n, day in enumerate(DAYS, start=1)}
    assert revenue(spark, stocked, "revenue_monthly") == {"2026-02-01": "6.00", "2026-03-01": "22.00"}
    assert commits(stocked) == 1, "seven slices and the table's making in one commit"
    # Computed with six others or alone, a day has the same inputs.
    again = stocked.call("run", "revenue_daily", "--date", "2026-02-28")
    assert "already published (generation 1" in again.out, again.out
    assert "same code, same inputs" in again.out


def test_only_what_changed_is_stale_and_a_restatement_says_by_how_much(stocked: Shop, spark: Any) -> None:
    stocked.call(*BACKFILL)
    change(spark, stocked, "2026-03-02", "50.00")
    plan = stocked.call(*BACKFILL, "--only", "stale", "--dry-run", "--output", "json").data["plan"]
    assert [(s["label"], s["why"]) for s in plan["slices"]] == [
        ("2026-03-02", "its input shop.orders changed since version 0")
    ]
    assert plan["left_out"] == {"published": 6}
    refused = stocked.call(*BACKFILL, "--only", "published")
    assert refused.code == 2
    assert "Use --restate" in refused.err
    done = stocked.call(*BACKFILL, "--restate")
    assert "7 published slices will be computed again" in done.out
    assert "restated: 6 IDENTICAL, 1 CHANGED" in done.out
    assert "revenue_daily[2026-03-02] CHANGED: +0 rows, revenue 5.00 -> 50.00" in done.out


def test_one_bad_day_is_named_and_one_command_retries_only_it(stocked: Shop, spark: Any) -> None:
    change(spark, stocked, "2026-03-01", "-1.00")
    done = stocked.call(*BACKFILL, "--output", "jsonl")
    assert done.code == 1
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["labels"] for line in lines if line["event"] == "failed"] == [["2026-03-01"]]
    assert lines[-1]["event"] == "end"
    assert (lines[-1]["done"], lines[-1]["failed"], lines[-1]["open"]) == (6, 1, 0)
    name = lines[-1]["name"]
    shown = stocked.call("backfill", "show", name).out
    assert "failed: revenue_daily[2026-03-01] audit between(revenue, 0, 100000) failed" in shown
    assert shown.splitlines()[-1] == f"next: twice backfill resume {stocked.named} {name}   (retries only what failed)"
    drawn = stocked.call("status", "revenue_daily", "--calendar")
    assert drawn.code == 1
    assert "2026-03  ✗■■■" in drawn.out
    change(spark, stocked, "2026-03-01", "4.00")
    resumed = stocked.call("backfill", "resume", name)
    assert resumed.code == 0
    assert resumed.out.splitlines()[0] == f"backfill {name}: resumed, 6 of 7 slices are done"
    assert resumed.out.splitlines()[1].startswith("revenue_daily[2026-03-01]: published, 1 row")
    assert revenue(spark, stocked) == {day: f"{n}.00" for n, day in enumerate(DAYS, start=1)}


def test_pause_and_cancel_and_list_need_no_spark_and_say_what_is_next(stocked: Shop) -> None:
    result = twice.backfill("revenue_daily", DAYS[0], DAYS[-1], name="mine", project=stocked.root)
    assert result.complete
    assert [slice_.label for slice_ in result.done] == DAYS
    assert "mine  finished  7/7 slices" in stocked.call("backfill", "list").out
    refused = stocked.call("backfill", "pause", "mine")
    assert refused.code == 2
    assert "the backfill mine is finished" in refused.err
    assert stocked.call("backfill", "show", "yours").code == 2
    assert "no backfill is running" in stocked.call("worker").out


def test_from_python_a_plan_is_shown_and_a_wrong_range_refused(stocked: Shop) -> None:
    plan = twice.backfill("revenue_daily", DAYS[0], DAYS[-1], dry_run=True, batch="off", project=stocked.root)
    assert [slice_.why for slice_ in plan.slices] == ["never published"] * 7
    with pytest.raises(UsageError, match=f'first="{DAYS[-1]}" is after last="{DAYS[0]}"'):
        twice.backfill("revenue_daily", DAYS[-1], DAYS[0], project=stocked.root)
    assert not (stocked.warehouse / "shop" / "revenue_daily").exists()


def test_in_parallel_on_one_session_each_slice_is_published_once(stocked: Shop, spark: Any) -> None:
    answer = stocked.call(*BACKFILL, "--batch", "off", "--parallel", "3")
    assert answer.code == 0, answer.err
    assert "7 of 7 slices are done" in answer.out
    assert revenue(spark, stocked) == {day: f"{n}.00" for n, day in enumerate(DAYS, start=1)}
    assert commits(stocked) == 7, "each slice once; the first one made the table"


@pytest.mark.timeout(240)
def test_interrupted_once_the_slice_in_hand_is_finished_and_resume_goes_on(stocked: Shop, spark: Any) -> None:
    with open_project(stocked.root, None) as opened:
        backfills.start(opened, BackfillRequest("revenue_daily", DAYS[0], DAYS[-1], batch="off"), "week")
    # Its Spark starts after the command has begun, and would take Ctrl-C for itself.
    with stocked.start("backfill", "resume", "week") as process:
        assert process.stdout is not None and process.stderr is not None
        lines: list[str] = []
        while not any("(1/7)" in line for line in lines):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            lines.append(line)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=200)
    assert process.returncode == 130, out + err
    assert "finishing the batches that are running; press Ctrl-C again to stop at once" in err
    assert "continues with what is left" in out
    published = len(revenue(spark, stocked))
    assert 1 <= published < 7
    resumed = stocked.call("backfill", "resume", "week")
    assert f"backfill week: resumed, {published} of 7 slices are done" in resumed.out
    assert resumed.code == 0
    assert revenue(spark, stocked) == {day: f"{n}.00" for n, day in enumerate(DAYS, start=1)}
    assert commits(stocked) == 7, "each slice once"


STOPS_ITSELF = """
import os, pathlib, signal, sys
from twice.cli.progress import describe
from twice.core.failure.failpoints import Point, armed
from twice.project import backfill as backfills
from twice.runtime.backfill.worker import Stop
from twice.wiring.open_project import open_project
def stop(point):
    if point is Point.AFTER_PLAN:
        os.kill(os.getpid(), signal.SIGSTOP)
with open_project(pathlib.Path(sys.argv[1])) as opened, armed(stop):
    after = backfills.work(opened, "again", lambda event: print(describe(event)), Stop.never(), 1)
    print("complete:", after.complete)
"""


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_worker_that_wakes_up_after_another_took_over_does_not_restate_the_slice_again(stocked: Shop) -> None:
    """It had looked, found the slice to do, and was stopped before it claimed the slice: the worst moment."""
    day = DAYS[0]
    stocked.write("twice.toml", f'project = "worldshop"\nlease_seconds = 4\n{SPARK_TOML}')
    assert stocked.call("run", "revenue_daily", "--date", day).code == 0
    with open_project(stocked.root, None) as opened:
        asked = BackfillRequest("revenue_daily", day, day, only=("published",), restate=True)
        backfills.start(opened, asked, "again")
    silent = subprocess.Popen(
        [sys.executable, "-c", STOPS_ITSELF, str(stocked.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, state = os.waitpid(silent.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(state), silent.communicate()
        took_over = stocked.call("worker", "--backfill", "again")
        assert "revenue_daily[2026-02-26]: identical" in took_over.out, took_over.out + took_over.err
        os.kill(silent.pid, signal.SIGCONT)
        out, err = silent.communicate(timeout=100)
    finally:
        silent.kill()
    assert silent.returncode == 0, out + err
    assert "revenue_daily[2026-02-26]: already published" in out, out
    assert "complete: True" in out
    (run,) = stocked.call("status", "revenue_daily", "--output", "json").data["runs"]
    assert run["generation"] == 2, "published once, restated once"
    assert commits(stocked) == 2, "a publish, a restatement"


def begun(out: str) -> list[str]:
    """The lines about whole plans and tasks, without those about slices."""
    return [line for line in out.splitlines() if not line.startswith(" ") and "[" not in line]


def test_what_is_stale_of_all_tasks_is_made_right_in_order_each_slice_once(stocked: Shop, spark: Any) -> None:
    year = ("--from", "2026-02-26", "--to", "2026-03-04")
    first = stocked.call("backfill", "--all", *year)
    assert first.code == 0, first.err
    assert first.out.splitlines()[-1] == "2 of 2 tasks are done"
    change(spark, stocked, "2026-03-02", "90.00")
    everything = ("backfill", "--all", "--only", "stale")
    planned = stocked.call(*everything, "--dry-run", "--output", "json").data
    slices = {plan["request"]["task"]: [each["label"] for each in plan["slices"]] for plan in planned["plans"]}
    assert slices == {"revenue_daily": ["2026-03-02"], "revenue_monthly": []}
    made = stocked.call(*everything, "--output", "json")
    assert made.code == 0, made.err
    done = {end["task"]: [each["label"] for each in end["backfill"]["slices"]] for end in made.data["tasks"]}
    assert done == {"revenue_daily": ["2026-03-02"], "revenue_monthly": ["2026-03"]}
    assert revenue(spark, stocked)["2026-03-02"] == "90.00"
    before = len(stocked.call("backfill", "list").out.splitlines())
    again = stocked.call(*everything)
    assert (again.code, again.out.splitlines()) == (
        0,
        ["revenue_daily: nothing to do", "revenue_monthly: nothing to do", "2 of 2 tasks are done"],
    )
    assert len(stocked.call("backfill", "list").out.splitlines()) == before, "nothing was stored for it"


def test_a_task_is_not_begun_while_one_it_reads_from_is_not_complete(stocked: Shop, spark: Any) -> None:
    change(spark, stocked, "2026-03-02", "999999.00")  # the audit refuses it
    year = ("--from", "2026-02-26", "--to", "2026-03-04")
    answer = stocked.call("backfill", "revenue_daily+", *year, "--parallel", "2", "--output", "json")
    assert answer.code == 1
    daily, monthly = answer.data["tasks"]
    assert (daily["backfill"]["failed"], monthly["backfill"], monthly["waits_for"]) == (1, None, "revenue_daily")
    text = stocked.call("backfill", "revenue_daily+", *year)
    assert "revenue_monthly: not begun, because revenue_daily is not complete" in text.out
    assert begun(text.out)[-1] == "0 of 2 tasks are done"
    change(spark, stocked, "2026-03-02", "9.00")
    assert stocked.call("backfill", "revenue_daily+", *year).code == 0
    alone = stocked.call("backfill", "revenue_monthly", "--only", "stale", "--dry-run")
    assert (alone.code, alone.out.splitlines()[-1]) == (0, "next: nothing to do")
