"""`twice prove` through the command line."""

from __future__ import annotations

import json
import shutil

import pytest

from .conftest import Shop

pytestmark = pytest.mark.timeout(300)

STAMPED = """
from pyspark.sql import functions as F
from twice import Daily, read, replace, task

@task("shop.stamped", scope=Daily("order_date", start="2026-01-01"),
      inputs={"orders": read("shop.orders", by="order_date")}, write=replace())
def stamped(orders):
    return orders.select("order_id", "order_date", F.current_timestamp().alias("loaded_at"))
"""


@pytest.mark.long
def test_a_proof_is_reported_kept_and_forgotten_when_the_code_changes(stocked: Shop) -> None:
    answer = stocked.call("prove", "revenue_daily", "--date", "2026-06-09", "-s", "twice")
    assert answer.code == 0, answer
    lines = answer.out.splitlines()
    assert lines[0].startswith("revenue_daily[2026-06-09], code ")
    assert lines[2].startswith("twice     same   ")
    assert lines[-1] == f"proved: 1 of 1; next: twice status {stocked.named}"
    assert not (stocked.warehouse / "shop" / "revenue_daily").exists()  # proved, not published
    assert "revenue_daily: proved at this code version (2026-06-09, " in stocked.call("status", "revenue_daily").out
    assert "nothing published, proved" in stocked.call("status").out
    pipeline = stocked.root / "pipelines" / "revenue.py"
    pipeline.write_text(pipeline.read_text().replace('F.sum("amount")', 'F.max("amount")'))
    assert "revenue_daily: proved at another code version" in stocked.call("status", "revenue_daily").out


def test_what_differs_is_shown_with_rows_cause_and_fix_and_exits_1(stocked: Shop) -> None:
    stocked.write("pipelines/stamped.py", STAMPED)
    answer = stocked.call(
        "prove", "stamped", "--date", "2026-06-10", "-s", "twice", "--report", str(stocked.root / "r")
    )
    assert answer.code == 1
    assert "\n1 row differs in loaded_at\n  loaded_at: clean 20" in answer.out
    assert "\nlikely: current_timestamp reaches column loaded_at: it is the time of the run" in answer.out
    assert "\nfix: Use the slice's date (run.slice, :ds).\n" in answer.out
    assert sorted(path.name for path in (stocked.root / "r").iterdir()) == ["junit.xml", "proof.html", "proof.json"]
    written = json.loads((stocked.root / "r" / "proof.json").read_text())
    assert written["schema_version"] == 1
    (trial,) = written["proofs"][0]["trials"]
    assert (trial["verdict"], trial["difference"]["columns"], trial["difference"]["rows"]) == (
        "CHANGED",
        ["loaded_at"],
        1,
    )
    assert "stamped: NOT proved at this code version: CHANGED after twice" in stocked.call("status", "stamped").out


def test_a_task_or_all_is_asked_for(shop: Shop) -> None:
    answer = shop.call("prove")
    command = f"twice prove --project {shop.root} revenue_daily --date 2026-06-09"
    assert (answer.code, answer.err) == (2, f"error[usage]: prove takes a task, or --all. {command}\n")


@pytest.mark.kill
@pytest.mark.long
def test_really_killed_and_run_again_the_table_is_that_of_a_clean_run(stocked: Shop) -> None:
    answer = stocked.call("prove", "revenue_daily", "--date", "2026-06-09", "-s", "kill")
    assert answer.code == 0, answer
    assert "killed at in_stage, after_commit, each time run again" in answer.out


@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is missing")
def test_in_a_process_whose_clock_is_ahead_a_date_in_the_data_is_another(stocked: Shop) -> None:
    stocked.write("pipelines/stamped.py", STAMPED.replace("current_timestamp", "current_date"))
    answer = stocked.call("prove", "stamped", "--date", "2026-06-10", "-s", "twice", "-s", "shifted")
    assert answer.code == 1, answer.out
    twice_, shifted = answer.out.splitlines()[2:4]
    assert twice_.startswith("twice     same ")
    assert shifted.startswith("shifted   CHANGED ")
    assert "likely: current_date reaches column loaded_at" in answer.out


@pytest.mark.long
def test_of_all_tasks_one_that_cannot_run_is_reported_and_does_not_stop_the_others(stocked: Shop) -> None:
    stocked.write("pipelines/astray.py", STAMPED.replace("shop.orders", "shop.nowhere").replace("stamped", "astray"))
    answer = stocked.call("prove", "--all", "--date", "2026-06-09", "-s", "twice")
    assert answer.code == 1
    assert "revenue_daily[2026-06-09], code " in answer.out
    assert "error[input-missing]: astray[2026-06-09]: the input table shop.nowhere does not exist" in answer.err
