"""Bad input gets its own clear error, the documented exit code, and nothing changes in any table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import REVENUE, Shop

RUN = ("run", "revenue_daily", "--date", "2026-06-09")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("run", "revenue_dayly", "--date", "2026-06-09"), "Did you mean revenue_daily?"),
        (("run", "revenue_daily"), "never taken from the clock. Give the logical date: --date 2026-06-09"),
        (("run", "revenue_daily", "--date", "09.06.2026"), "is not a date"),
        (("run", "revenue_daily", "--date", "2026-02-30"), "is not a date"),
        (("run", "revenue_daily", "--date", "2025-12-31"), "before the task's start, 2026-01-01"),
        (("run", "revenue_daily", "--start", "2026-06-09", "--end", "2026-06-09"), "Airflow 3"),
        (("run", "revenue_daily", "--start", "2026-06-09"), "--start and --end go together"),
        (("run", "revenue_daily", "--start", "tuesday", "--end", "2026-06-09"), "'tuesday' is not a date or time"),
        (("run",), "no task given"),
        (("history", "nothing"), "there is no task 'nothing'"),
        (("status", "nothing"), "there is no task 'nothing'"),
    ],
)
def test_a_wrong_call_is_reported_without_starting_spark(shop: Shop, args: tuple[str, ...], message: str) -> None:
    answer = shop.call(*args)
    assert answer.code == 2
    assert message in answer.err
    assert answer.out == ""
    assert not shop.warehouse.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('boom')\n", "pipelines/broken.py:1 cannot be imported: RuntimeError: boom"),
        ("def f(:\n", "pipelines/broken.py:1 cannot be imported: SyntaxError"),
        ("import no_such_module\n", "cannot be imported: ModuleNotFoundError"),
        ("import sys; sys.exit(3)\n", "cannot be imported: SystemExit"),
        (REVENUE.replace("def revenue_daily", "def other"), "both write shop.revenue_daily"),
        (REVENUE.replace("shop.revenue_daily", "shop.two"), "two tasks are named revenue_daily"),
        (REVENUE.replace("shop.revenue_daily", "shop.rev'enue"), "is not a table name"),
        (REVENUE.replace("shop.revenue_daily", "../../etc"), "is not a table name"),
        (REVENUE.replace("shop.revenue_daily", "shop.umsätze"), "is not a table name"),
        (REVENUE.replace("def revenue_daily", "def umsätze").replace("shop.rev", "shop.x"), "is not a task name"),
    ],
)
def test_a_project_that_cannot_work_is_reported_before_anything_runs(shop: Shop, text: str, message: str) -> None:
    shop.write("pipelines/broken.py", text)
    answer = shop.call(*RUN)
    assert answer.code == 2
    assert message in answer.err
    assert not shop.warehouse.exists()


def test_a_cycle_of_inputs_is_reported(shop: Shop) -> None:
    shop.write(
        "pipelines/ring.py",
        """
        from twice import Whole, read, replace, task

        @task("shop.a", scope=Whole(), write=replace(), inputs={"b": read("shop.b")})
        def a(b): return b

        @task("shop.b", scope=Whole(), write=replace(), inputs={"a": read("shop.a")})
        def b(a): return a
        """,
    )
    answer = shop.call("run", "a")
    assert answer.code == 2
    assert "the inputs make a cycle" in answer.err


def test_no_project_here_is_reported(tmp_path: Path) -> None:
    answer = Shop(tmp_path).call("status")
    assert answer.code == 2
    assert "twice init" in answer.err


def test_an_error_is_json_for_programs(shop: Shop) -> None:
    answer = shop.call("run", "revenue_daily", "--output", "json")
    assert answer.code == 2
    assert answer.data["schema_version"] == 1
    assert answer.data["error"]["code"] == "usage"
    assert answer.err == ""


def test_a_missing_input_table_is_reported_and_creates_nothing(shop: Shop, spark: Any) -> None:
    answer = shop.call(*RUN)
    assert answer.code == 1
    assert "revenue_daily[2026-06-09]: the input table shop.orders does not exist" in answer.err
    assert not (shop.warehouse / "shop" / "revenue_daily").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('orders.selectExpr("date_add(order_date, 1) AS order_date", "region")', "rows outside 2026-06-09"),
        ('orders.selectExpr("CAST(NULL AS DATE) AS order_date", "region")', "rows outside 2026-06-09"),
        ('orders.select("region")', "order_date"),
        ('orders.select("order_date", "region", "REGION")', "more than one column named 'REGION'"),
        ('orders.withColumn("r", F.rand())', "rand reaches column r"),
        ('orders.withColumn("t", F.current_timestamp())', "current_timestamp reaches column t"),
        ("None", "returned"),
        ("1 / 0", "the task's own code raised ZeroDivisionError: division by zero (wrong.py:8)"),
        ('orders.select("order_date", "nope")', "raised AnalysisException"),
    ],
)
def test_a_result_that_may_not_be_written_is_refused_and_the_table_stays(
    stocked: Shop, body: str, message: str
) -> None:
    stocked.write(
        "pipelines/wrong.py",
        f"""
        from pyspark.sql import functions as F
        from twice import Daily, read, replace, task

        @task("shop.wrong", scope=Daily("order_date", start="2026-01-01"),
              inputs={{"orders": read("shop.orders", by="order_date")}}, write=replace())
        def wrong(orders):
            return {body}
        """,
    )
    answer = stocked.call("run", "wrong", "--date", "2026-06-09")
    assert answer.code == 1, answer
    assert "wrong[2026-06-09]" in answer.err
    assert message in answer.err
    assert "The table is unchanged." in answer.err
    assert "Traceback" not in answer.err
    assert len(answer.err.splitlines()) == 1, "one message, and nothing of Spark's own beside it"
    assert not list((stocked.warehouse / "shop").glob("wrong/**/*.parquet"))


def test_schema_drift_is_refused_before_anything_is_written(
    stocked: Shop, put_orders: Callable[..., None], spark: Any
) -> None:
    assert stocked.call(*RUN).code == 0
    path = stocked.warehouse / "shop" / "revenue_daily"
    files = sorted(path.rglob("*.parquet"))
    stocked.write(
        "pipelines/revenue.py", REVENUE.replace('alias("revenue"))', 'alias("revenue")).withColumn("x", F.lit(1))')
    )
    answer = stocked.call(*RUN)
    assert answer.code == 1
    assert "x" in answer.err
    assert "The table is unchanged." in answer.err
    assert sorted(path.rglob("*.parquet")) == files
