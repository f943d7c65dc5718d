"""What a user may declare, run on real Spark: SQL tasks, zones, hours, months, lookback, previews, renames."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.sample import sample

from twice.wiring.open_project import open_project

from .conftest import REVENUE, TOML, Shop


def published(spark: Any, shop: Shop, table: str) -> Any:
    return spark.read.format("delta").load(str(shop.warehouse / "shop" / table))


def test_a_sql_task_runs_its_file_with_the_slice_bound_as_values(stocked: Shop, spark: Any) -> None:
    stocked.write(
        "pipelines/by_region.sql",
        """
        WITH paid AS (SELECT * FROM shop.orders WHERE amount > 0)
        SELECT order_date, paid.region, sum(paid.amount) AS revenue, :ds AS stamp
        FROM paid WHERE order_date >= :start AND order_date < :end
        GROUP BY ALL
        """,
    )
    stocked.write(
        "pipelines/sql.py",
        """
        from twice import Daily, read, replace, sql_task

        by_region = sql_task("pipelines/by_region.sql", "shop.by_region", write=replace(),
                             scope=Daily("order_date", start="2026-01-01"), inputs={"orders": read("shop.orders")})
        """,
    )
    answer = stocked.call("run", "by_region", "--date", "2026-06-09")
    assert answer.code == 0, answer.err
    rows = {row.region: (row.revenue, row.stamp) for row in published(spark, stocked, "by_region").collect()}
    assert rows == {"EU": (Decimal("12.50"), "2026-06-09"), "US": (Decimal("1.00"), "2026-06-09")}
    assert "already published" in stocked.call("run", "by_region", "--date", "2026-06-09").out
    stocked.write("pipelines/by_region.sql", "SELECT order_date, region FROM shop.other WHERE order_date = :ds")
    shown = stocked.call("run", "by_region", "--date", "2026-06-09")
    assert shown.code == 2
    assert "shop.other" in shown.err


def test_a_sql_task_whose_function_of_the_catalog_was_replaced_is_computed_again(stocked: Shop, spark: Any) -> None:
    stocked.write(
        "pipelines/taxed.sql",
        "SELECT order_date, region, shop_tax.vat(amount) AS gross FROM shop.orders WHERE order_date >= :start "
        "AND order_date < :end",
    )
    stocked.write(
        "pipelines/sql.py",
        """
        from twice import Daily, read, replace, sql_task

        taxed = sql_task("pipelines/taxed.sql", "shop.taxed", write=replace(),
                         scope=Daily("order_date", start="2026-01-01"), inputs={"orders": read("shop.orders")})
        """,
    )
    spark.sql("CREATE DATABASE IF NOT EXISTS shop_tax")
    try:
        spark.sql("CREATE OR REPLACE FUNCTION shop_tax.vat(x DOUBLE) RETURNS DOUBLE RETURN x * 1.5")
        first = stocked.call("run", "taxed", "--date", "2026-06-09")
        assert first.code == 0, first.err
        assert "already published" in stocked.call("run", "taxed", "--date", "2026-06-09").out
        spark.sql("CREATE OR REPLACE FUNCTION shop_tax.vat(x DOUBLE) RETURNS DOUBLE RETURN x * 2")
        again = stocked.call("run", "taxed", "--date", "2026-06-09")
        assert ("already published" in again.out, again.code) == (False, 0)
        assert "already published" in stocked.call("run", "taxed", "--date", "2026-06-09").out
    finally:
        spark.sql("DROP DATABASE shop_tax CASCADE")


def test_a_preview_shows_the_slice_and_publishes_nothing(stocked: Shop, spark: Any) -> None:
    with open_project(stocked.root) as opened:
        frame = opened.project.task("revenue_daily").preview("2026-06-09", project=stocked.root)  # type: ignore[attr-defined]
        assert {row.region: row.revenue for row in frame.collect()} == {"EU": Decimal("12.50"), "US": Decimal("1.00")}
    assert not (stocked.warehouse / "shop" / "revenue_daily").exists()


def test_lookback_also_does_the_earlier_slices_that_are_stale(
    stocked: Shop, put_orders: Callable[..., None], spark: Any
) -> None:
    stocked.write(
        "pipelines/revenue.py",
        REVENUE.replace('start="2026-01-01"', 'start="2026-01-01", lookback=1').replace("audit.rows(at_least=1)", ""),
    )
    first = stocked.call("run", "revenue_daily", "--date", "2026-06-10", "--output", "json").data["results"]
    assert [(r["slices"][0]["label"], r["outcome"]) for r in first] == [
        ("2026-06-09", "published"),
        ("2026-06-10", "published"),
    ]
    again = stocked.call("run", "revenue_daily", "--date", "2026-06-10", "--output", "json").data["results"]
    assert [r["outcome"] for r in again] == ["already published", "already published"]


def test_a_renamed_task_keeps_its_history(stocked: Shop) -> None:
    stocked.call("run", "revenue_daily", "--date", "2026-06-09")
    renamed = REVENUE.replace("def revenue_daily", "def revenue").replace(
        "write=replace()", 'write=replace(), formerly=["revenue_daily"]'
    )
    stocked.write("pipelines/revenue.py", renamed)
    attempts = stocked.call("history", "revenue", "--output", "json").data["attempts"]
    assert [(a["task"], a["state"]) for a in attempts] == [("revenue", "published")]


@pytest.mark.parametrize(
    ("scope", "date", "column", "value", "ids"),
    [
        ('Daily("at", start="2026-01-01", zone="America/New_York")', "2026-03-08", "local_day", "2026-03-08", [2, 3]),
        ('Hourly("at", start="2026-01-01T00")', "2026-03-08T05", "at_hour", "2026-03-08 05:00:00", [2]),
        (
            'Every("at", start="2026-01-01T00:00", minutes=15)',
            "2026-03-09T03:45",
            "window_start",
            "2026-03-09 03:45:00",
            [3],
        ),
        ('Monthly("at", start="2026-01", zone="UTC")', "2026-03", "at_month", "2026-03-01", [1, 2, 3, 4]),
    ],
)
def test_every_scope_cuts_its_input_and_adds_its_slice_column(
    shop: Shop, spark: Any, scope: str, date: str, column: str, value: str, ids: list[int]
) -> None:
    # 8 March 2026 lasts 23 hours in New York: from 05:00 to 04:00 UTC.
    events = spark.createDataFrame(
        [
            (1, "2026-03-08 04:59:59"),
            (2, "2026-03-08 05:00:00"),
            (3, "2026-03-09 03:59:59"),
            (4, "2026-03-09 04:00:00"),
        ],
        "id BIGINT, at STRING",
    ).selectExpr("id", "CAST(at AS TIMESTAMP) AS at")
    events.write.format("delta").save(str(shop.warehouse / "shop" / "events"))
    shop.write(
        "pipelines/events.py",
        f"""
        from twice import Daily, Every, Hourly, Monthly, read, replace, task

        @task("shop.copy", scope={scope}, inputs={{"events": read("shop.events", by="at")}}, write=replace())
        def copy(events):
            return events
        """,
    )
    answer = shop.call("run", "copy", "--date", date)
    assert answer.code == 0, answer.err
    copied = published(spark, shop, "copy")
    assert sorted(row.id for row in copied.collect()) == ids
    assert {str(row[column]) for row in copied.selectExpr(f"CAST({column} AS STRING) AS {column}").collect()} == {value}
    assert "already published" in shop.call("run", "copy", "--date", date).out


@pytest.mark.parametrize(
    ("write", "internal"),
    sample(
        [("replace()", True), ("replace()", False), ('merge(("order_date", "region"), order="any")', True)],
        of=[("replace()", True)],
    ),
    ids=["replace", "replace by public calls", "merge"],
)
def test_after_a_rollback_from_months_to_days_the_days_are_computed_again(
    stocked: Shop, spark: Any, write: str, internal: bool
) -> None:
    if not internal:
        stocked.write("twice.toml", f"internal = false\n{TOML}")
    daily = REVENUE.replace("write=replace()", f"write={write}").replace("import Daily", "import merge, Daily, Monthly")
    months = 'Monthly("order_date", start="2026-01", slice_column="order_date")'
    by_month = daily.replace('Daily("order_date", start="2026-01-01")', months).replace(
        'F.sum("amount")', '(-F.sum("amount"))'
    )

    def deployed(version: str, date: str) -> tuple[str, str]:
        stocked.write("pipelines/revenue.py", version)
        answer = stocked.call("run", "revenue_daily", "--date", date, "--output", "json")
        assert answer.code == 0, answer.out
        (result,) = answer.data["results"]
        return result["outcome"], result["why"]

    def revenue() -> dict[str, Decimal]:
        rows = published(spark, stocked, "revenue_daily").where("order_date = DATE'2026-06-09'").collect()
        return {row.region: row.revenue for row in rows}

    right = {"EU": Decimal("12.50"), "US": Decimal("1.00")}
    assert deployed(daily, "2026-06-09")[0] == "published"
    assert deployed(by_month, "2026-06")[0] == "published"
    assert revenue() == {region: -amount for region, amount in right.items()}
    stocked.write("pipelines/revenue.py", daily)
    range_ = ("--from", "2026-06-09", "--to", "2026-06-10", "--only", "stale", "--dry-run", "--output", "json")
    planned = stocked.call("backfill", "revenue_daily", *range_).data["plan"]
    assert [each["label"] for each in planned["slices"]] == ["2026-06-09"]
    assert deployed(daily, "2026-06-09") == ("published", "the task has cut its table into other slices meanwhile")
    assert revenue() == right
    assert deployed(daily, "2026-06-09")[0] == "already published"
    assert deployed(by_month, "2026-06")[0] == "published"


def test_the_run_parameter_reads_tables_that_are_not_declared_and_they_are_recorded(stocked: Shop) -> None:
    stocked.write(
        "pipelines/loose.py",
        """
        from twice import Daily, replace, task

        @task("shop.loose", scope=Daily("order_date", start="2026-01-01"), write=replace())
        def loose(run):
            return run.read("shop.orders").where(f"order_date = DATE'{run.slice.label}'")
        """,
    )
    assert stocked.call("run", "loose", "--date", "2026-06-09").code == 0
    (attempt,) = stocked.call("history", "loose", "--output", "json").data["attempts"]
    assert [leaf["kind"] for leaf in attempt["inputs"]] == ["delta", "plan", "table"]


def test_a_task_that_reads_its_own_target_sees_what_it_published_before(stocked: Shop, spark: Any) -> None:
    stocked.write(
        "pipelines/running.py",
        """
        from pyspark.sql import functions as F
        from twice import Daily, days, read, replace, task

        @task("shop.running", scope=Daily("order_date", start="2026-06-09"), write=replace(),
              inputs={"orders": read("shop.orders", by="order_date")})
        def running(run, orders):
            today = orders.groupBy("order_date").agg(F.sum("amount").alias("total"))
            if run.slice.label == "2026-06-09":
                return today
            before = run.read("shop.running").where(f"order_date = date_sub(DATE'{run.slice.label}', 1)")
            return today.crossJoin(before.select(F.col("total").alias("so_far"))).selectExpr(
                "order_date", "CAST(total + so_far AS DECIMAL(22,2)) AS total")
        """,
    )
    for day in ("2026-06-09", "2026-06-10", "2026-06-10"):
        answer = stocked.call("run", "running", "--date", day)
        assert answer.code == 0, answer.err
    rows = {str(row.order_date): row.total for row in published(spark, stocked, "running").collect()}
    assert rows == {"2026-06-09": Decimal("13.50"), "2026-06-10": Decimal("20.50")}


def test_rows_deleted_by_others_are_reported_with_the_version_and_restate_puts_them_right(
    stocked: Shop, spark: Any
) -> None:
    run = ("run", "revenue_daily", "--date", "2026-06-09")
    stocked.call(*run)
    path = stocked.warehouse / "shop" / "revenue_daily"
    spark.sql(f"DELETE FROM delta.`{path}` WHERE region = 'EU'")
    shown = stocked.call(*run).out
    assert "already published" in shown
    assert "2026-06-09 was changed by others in version 1 (DELETE)" in shown
    spark.sql(f"DELETE FROM delta.`{path}`")
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert "in version 3 (RESTORE)" in stocked.call(*run).out
    restated = stocked.call("restate", *run[1:]).out
    assert "CHANGED" in restated
    assert "2026-06-09 was changed by others in version 3 (RESTORE); this run has corrected it" in restated
    assert "twice restate" not in restated
    assert "IDENTICAL" in stocked.call("restate", *run[1:]).out
    assert published(spark, stocked, "revenue_daily").count() == 2
    assert "changed by others" not in stocked.call(*run).out


OUTSIDE = """
import json, os
from pathlib import Path
from pyspark.sql import functions as F
from twice import Daily, Policy, read, replace, task

RATES = json.loads(Path(__file__).with_name("rates.json").read_text())
EUR = F.udf(lambda amount: float(amount) * RATES["eur"], "double")
DECLARED = dict(scope=Daily("order_date", start="2026-01-01"), write=replace(),
                inputs={"orders": read("shop.orders", by="order_date")})

@task("shop.by_variable", **DECLARED)
def by_variable(orders):
    return orders.where(F.col("region") == os.environ["REGION"])

@task("shop.by_function", **DECLARED)
def by_function(orders):
    return orders.withColumn("eur", EUR("amount"))

@task("shop.by_clock", **DECLARED, policy=Policy(allow=("current_date",)))
def by_clock(orders):
    return orders.withColumn("on", F.current_date())
"""


@pytest.mark.long
def test_what_the_code_takes_from_elsewhere_is_part_of_what_a_run_means_to_publish(
    stocked: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whys() -> dict[str, tuple[str, str]]:
        found = {}
        for name in ("by_variable", "by_function", "by_clock"):
            answer = stocked.call("run", name, "--date", "2026-06-09", "--output", "json")
            assert answer.code == 0, answer.err
            (result,) = answer.data["results"]
            found[name] = (result["outcome"], result["why"])
        return found

    stocked.write("pipelines/outside.py", OUTSIDE)
    stocked.write("pipelines/rates.json", '{"eur": 2}')
    monkeypatch.setenv("REGION", "EU")
    assert {outcome for outcome, _ in whys().values()} == {"published"}
    again = whys()
    assert again["by_variable"] == again["by_function"] == ("already published", "same code, same inputs")
    assert again["by_clock"] == ("published", "current_date, which the task allows, may differ on every run")
    monkeypatch.setenv("REGION", "US")
    stocked.write("pipelines/rates.json", '{"eur": 3}')
    changed = whys()
    why = "its code makes another plan than before, of values that it takes from elsewhere"
    assert changed["by_variable"] == ("published", why)
    assert changed["by_function"] == ("published", "a function that it calls computes with other values")
