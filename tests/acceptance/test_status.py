"""What is right and what is not: each task in a line, after a look at the tables, and the plan of a whole date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import twice

from .conftest import REVENUE, Shop

pytestmark = pytest.mark.spark

TASK = "revenue_daily"
TOP = """
from twice import Daily, Whole, read, replace, task

@task("shop.best", scope=Daily("order_date", start="2026-06-08"),
      inputs={"r": read("shop.revenue_daily", by="order_date")}, write=replace())
def best(r):
    return r.groupBy("order_date").count()

@task("shop.later", scope=Daily("order_date", start="2030-01-01"),
      inputs={"r": read("shop.revenue_daily", by="order_date")}, write=replace())
def later(r):
    return r
"""


@pytest.fixture
def project(stocked: Shop) -> Shop:
    """Two tasks in a row, from the 8th of June on, and one that begins years later."""
    stocked.write("pipelines/revenue.py", REVENUE.replace("2026-01-01", "2026-06-08"))
    stocked.write("pipelines/top.py", TOP)
    return stocked


def tasks(shop: Shop, *options: str) -> dict[str, dict[str, Any]]:
    return {each["task"]: each for each in shop.call("status", "--output", "json", *options).data["tasks"]}


def test_a_look_finds_what_the_ledger_cannot_know_and_it_counts_until_the_slice_is_run(
    project: Shop, put_orders: Callable[..., None]
) -> None:
    for day in ("2026-06-09", "2026-06-10"):
        assert project.call("run", TASK, "--date", day).code == 0
    before = project.call("status")
    assert before.code == 0
    assert "revenue_daily  daily  2026-06-10  2 published, 1 missing" in before.out
    assert f"next: twice backfill --all {project.named} --from 2026-06-08 --to 2026-06-10" in before.out
    assert tasks(project)[TASK]["looked"] is None

    put_orders(project, (1, "2026-06-09", "EU", "99.00"), (4, "2026-06-10", "EU", "7.00"))
    assert tasks(project)[TASK]["stale"] == 0, "what others did to a table is for a look to find out"
    looked = project.call("status", "--refresh")
    assert looked.code == 0, looked
    (line,) = (each for each in looked.out.splitlines() if each.startswith(f"{TASK} "))
    assert "2 published, 1 missing, 2 stale, looked 2" in line
    assert "because its input shop.orders changed since version" in looked.out
    found = tasks(project)[TASK]
    assert found["stale"] == 2 and found["looked"] is not None, "without a second look"
    stale = project.call("status", "--stale", "--missing").out
    assert "revenue_daily[2026-06-09]  stale    its input shop.orders changed" in stale
    assert "revenue_daily[2026-06-08]  missing  never published" in stale
    assert "□ stale" in project.call("status", TASK, "--calendar").out
    status = twice.status(project=project.root)
    assert status.tasks[0].stale.keys() == {"2026-06-09", "2026-06-10"}

    assert project.call("run", TASK, "--date", "2026-06-09").code == 0
    assert [each["label"] for each in project.call("status", "--stale", "-o", "json").data["slices"]] == ["2026-06-10"]
    assert project.call("run", TASK, "--date", "2026-06-10").code == 0
    assert tasks(project)[TASK]["stale"] == 0


def test_after_a_look_at_tasks_that_are_right_it_is_said_as_of_when(project: Shop) -> None:
    (project.root / "pipelines" / "top.py").unlink()
    project.write("pipelines/revenue.py", REVENUE.replace("2026-01-01", "2026-06-09"))
    assert project.call("run", TASK, "--date", "2026-06-09").code == 0
    told = project.call("status").out.splitlines()[-1]
    assert told.startswith("revenue_daily is right as far as the ledger knows; next: twice status ")
    looked = twice.status(project=project.root, refresh=True).tasks[0].looked
    assert looked is not None
    assert project.call("status").out.splitlines()[-1] == f"revenue_daily is right as of {looked:%Y-%m-%d %H:%M} UTC"
    code = project.root / "pipelines" / "revenue.py"
    code.write_text(code.read_text().replace('F.sum("amount")', 'F.max("amount")'))
    again = project.call("status")
    assert "1 slice is stale; next: twice backfill revenue_daily" in again.out
    code.write_text(code.read_text().replace('F.max("amount")', 'F.sum("amount")'))
    assert "is right as of" in project.call("status").out


def test_a_table_that_is_gone_is_found_by_a_look_and_one_that_cannot_be_read_stops_no_other(
    project: Shop,
) -> None:
    for name in (TASK, "best"):
        assert project.call("run", name, "--date", "2026-06-09").code == 0
    table = project.warehouse / "shop" / "revenue_daily"
    table.rename(project.warehouse / "kept")
    found = tasks(project, "--refresh")
    assert (found[TASK]["published"], found[TASK]["missing"]) == (0, 2)
    gone = project.call("status", TASK, "--missing").out
    assert "2026-06-09]  missing  its table does not hold it: it was recreated, or replaced by an older copy" in gone
    (project.warehouse / "kept").rename(table)
    log = next((project.warehouse / "shop" / "best" / "_delta_log").glob("*.json"))
    log.write_text("no JSON")
    broken = project.call("status", "--refresh", "--output", "json")
    assert broken.code == 1
    assert set(broken.data["not_looked_at"]) == {"best"}
    (found_again,) = (each for each in broken.data["tasks"] if each["task"] == TASK)
    assert found_again["published"] == 1, "it is there again, and was looked at"


def test_every_task_of_a_date_is_planned_in_order_each_in_a_line(project: Shop) -> None:
    plan = project.call("plan", "--all", "--date", "2026-06-09")
    assert plan.code == 0, plan
    lines = plan.out.splitlines()
    assert lines[0] == "revenue_daily[2026-06-09]: would be computed (never published)"
    assert lines[1] == (
        "best[2026-06-09]: would be computed (the input table shop.revenue_daily does not exist, and revenue_daily "
        "would be run before it)"
    )
    assert lines[2] == "later: left out, because 2026-06-09 is before the task's start, 2030-01-01"
    assert lines[3] == (
        "2 of 2 slices would be computed, 1 task left out; nothing was written; "
        f"next: twice run {project.named} --all --date 2026-06-09"
    )
    assert not (project.warehouse / "shop" / "revenue_daily").exists()

    assert project.call("run", "--all", "--date", "2026-06-09").code == 0
    again = project.call("plan", "--all", "--date", "2026-06-09").out.splitlines()
    assert again[0] == "revenue_daily[2026-06-09]: would stay as it is (same code, same inputs)"
    assert again[-1] == "0 of 2 slices would be computed, 1 task left out; nothing was written; next: nothing to do"

    code = project.root / "pipelines" / "revenue.py"
    code.write_text(code.read_text().replace('F.sum("amount")', 'F.max("amount")'))
    changed = project.call("plan", "--all", "--date", "2026-06-09", "--output", "json").data
    assert [(each["task"], each["compute"], each["after"]) for each in changed["plan"]] == [
        (TASK, True, []),
        ("best", False, [TASK]),
    ]
    assert list(changed["left_out"]) == ["later"] and changed["errors"] == []
    text = project.call("plan", "--all", "--date", "2026-06-09").out
    assert "(same code, same inputs), unless revenue_daily, run before it, changes what it reads" in text


def test_a_task_that_cannot_be_planned_stops_no_other(project: Shop) -> None:
    project.write(
        "pipelines/broken.py",
        """
        from twice import Daily, replace, task

        @task("shop.broken", scope=Daily("order_date", start="2026-01-01"), write=replace())
        def broken(run):
            raise ValueError("no")
        """,
    )
    plan = project.call("plan", "--all", "--date", "2026-06-09")
    assert plan.code == 1
    assert "error[user-code]: broken" in plan.err
    assert "best[2026-06-09]: would be computed" in plan.out
    assert "1 task could not be planned" in plan.out.splitlines()[-1]
