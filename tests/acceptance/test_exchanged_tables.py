"""An environment that was moved to another warehouse, on real Delta: what the ledger remembers of the old table is not
believed of the other one, although both stand at the same generation.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_queries import SPARK_TOML

from .conftest import REVENUE, Shop, write_orders

DAYS = ("2026-06-09", "2026-06-10", "2026-06-11")
NEW_DAY = "2026-06-12"
CODE = REVENUE.replace('start="2026-01-01"', 'start="2026-01-01", batch=True')
OLD_CODE = CODE.replace("orders.groupBy", "orders.where(\"region = 'EU'\").groupBy")
RIGHT = [("EU", "10.00"), ("US", "1.00")]


def deploy(shop: Shop, environment: str, warehouse: str, code: str) -> None:
    names = f'project = "worldshop"\nenvironment = "{environment}"\nwarehouse = "{warehouse}"\n'
    shop.write("twice.toml", f"{names}{SPARK_TOML}")
    shop.write("pipelines/revenue.py", code)


@pytest.fixture(scope="module")
def moved(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Old code published three days for `trial`, new code the same days for `prod`; then `prod` was given the warehouse
    of `trial`. Each test has days of its own."""
    shop = Shop(tmp_path_factory.mktemp("moved"))
    days = enumerate((*DAYS, NEW_DAY))
    orders = [(2 * n + at, day, *row) for n, day in days for at, row in enumerate(RIGHT)]
    write_orders(spark, shop.root / "old", *orders)
    shutil.copytree(shop.root / "old", shop.root / "new")
    deploy(shop, "trial", "new", OLD_CODE)
    publish(shop, DAYS[:1])  # by itself: the other days' commit has another version than in the other warehouse
    publish(shop, DAYS[1:])
    deploy(shop, "prod", "old", CODE)
    publish(shop, DAYS)
    deploy(shop, "prod", "new", CODE)
    return shop


def publish(shop: Shop, days: Sequence[str]) -> None:
    """In one commit."""
    done = shop.call("backfill", "revenue_daily", "--from", days[0], "--to", days[-1])
    assert done.code == 0, done.err


def revenue(spark: Any, warehouse: Path, day: str) -> list[tuple[str, str]]:
    table = spark.read.format("delta").load(str(warehouse / "shop" / "revenue_daily")).where(f"order_date = '{day}'")
    return sorted((row.region, str(row.revenue)) for row in table.collect())


def test_a_run_does_not_take_another_tables_rows_for_what_it_published(moved: Shop, spark: Any) -> None:
    day = DAYS[1]
    ran = moved.call("run", "revenue_daily", "--date", day)
    assert f"revenue_daily[{day}]: published" in ran.out, ran.out + ran.err
    assert "this is another table than the one that was published to" in ran.out
    assert revenue(spark, moved.root / "new", day) == RIGHT


def test_a_restatement_of_another_tables_rows_is_not_called_identical(moved: Shop, spark: Any) -> None:
    day = DAYS[0]
    restated = moved.call("restate", "revenue_daily", "--date", day)
    assert "IDENTICAL" not in restated.out, restated.out
    assert revenue(spark, moved.root / "new", day) == RIGHT


def test_a_day_published_to_the_other_table_since_does_not_vouch_for_its_other_days(moved: Shop) -> None:
    assert moved.call("run", "revenue_daily", "--date", NEW_DAY).code == 0
    asked = ("backfill", "revenue_daily", "--from", DAYS[2], "--to", NEW_DAY, "--only", "stale,published", "--restate")
    plan = moved.call(*asked, "--dry-run", "--output", "json").data["plan"]
    assert {each["label"]: each["standing"] for each in plan["slices"]} == {DAYS[2]: "stale", NEW_DAY: "published"}
