"""The shop's jobs beside the versions people write first: the naive ones cause the incident they name, ours do not.

Everything happens in one story: two days are delivered, each is loaded when it comes, then the second day
is loaded again and the first one is repaired.
"""

from __future__ import annotations

import importlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions

from .conftest import Answer, Shop

# The first test waits for both days to be delivered and loaded.
pytestmark = [pytest.mark.timeout(400), pytest.mark.long]

WORLDSHOP = Path(__file__).resolve().parents[2] / "examples" / "worldshop"
FIRST, SECOND = "2026-06-08", "2026-06-09"
JOBS = (
    *("daily_customer_summary", "daily_inventory_adjustments", "dim_products", "events_raw"),
    *("fact_events", "orders_copy", "revenue_daily", "stock_levels"),
)

Rows = list[dict[str, Any]]


@dataclass
class LoadedShop:
    """The shop's folder, a way to read its tables, and what the jobs answered when they ran."""

    shop: Shop
    spark: Any
    answers: dict[str, Answer]

    def rows(self, table: str, where: str = "true") -> Rows:
        frame = self.spark.read.format("delta").load(str(self.shop.warehouse / table)).where(where)
        return sorted((row.asDict() for row in frame.collect()), key=lambda row: repr(sorted(row.items())))

    def versions(self) -> dict[str, int]:
        logs = (self.shop.warehouse / "shop" / job / "_delta_log" for job in JOBS)
        return {log.parent.name: len(list(log.glob("*.json"))) for log in logs}

    def add(self, table: str, newest_by: str, **values: Any) -> None:
        """One more row, as another system would write it: the newest row there is, but with these values."""
        place = str(self.shop.warehouse / table)
        frame = self.spark.read.format("delta").load(place)
        newest = frame.orderBy(frame[newest_by].desc()).limit(1)
        for name, value in values.items():
            newest = newest.withColumn(name, functions.lit(value).cast(frame.schema[name].dataType))
        newest.write.format("delta").mode("append").save(place)

    def naive(self, job: str, *days: str) -> None:
        """The naive twin of a job, run for each of these days in turn."""
        module = importlib.import_module(f"naive.{job}")
        for day in days:
            getattr(module, job)(self.spark, self.shop.warehouse, day)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[LoadedShop]:
    """Both days delivered and loaded, one after the other."""
    root = tmp_path_factory.mktemp("worldshop")
    for name in ("pipelines", "twice.toml"):
        copy: Callable[..., Any] = shutil.copytree if (WORLDSHOP / name).is_dir() else shutil.copy
        copy(WORLDSHOP / name, root / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(WORLDSHOP))
        generate = importlib.import_module("generate")
        made = LoadedShop(Shop(root), spark, {})
        for day in (FIRST, SECOND):
            size = generate.Size(1, 80, date.fromisoformat(day), customers=20, products=3)
            daily = [name for name, table in generate.TABLES.items() if table.by is not None]
            generate.write(spark, made.shop.warehouse, size, daily if day == SECOND else [*daily, "products", "stock"])
            made.answers[day] = made.shop.call("run", "--all", "--date", day)
        yield made


def test_the_whole_chain_runs_in_the_order_of_its_inputs(loaded: LoadedShop) -> None:
    for day in (FIRST, SECOND):
        assert loaded.answers[day].code == 0, loaded.answers[day].err
        assert "9 of 9 tasks are done" in loaded.answers[day].out
    shown = loaded.answers[SECOND].out
    for before, after in (
        ("orders_copy[since]", f"daily_customer_summary[{SECOND}]"),
        (f"events_raw[{SECOND}]", f"fact_events[{SECOND}]"),
        (f"daily_inventory_adjustments[{SECOND}]", "stock_levels[all]"),
    ):
        assert shown.index(before) < shown.index(after)


def test_running_the_chain_again_changes_nothing(loaded: LoadedShop) -> None:
    versions = loaded.versions()
    again = loaded.shop.call("run", "--all", "--date", SECOND)
    assert again.code == 0, again.err
    assert again.out.count("]: already published") == 10  # two of them look back to the day before
    assert again.out.count("]: nothing new") == 1
    assert loaded.versions() == versions


def test_revenue_daily_is_too_high_when_the_naive_job_runs_again(loaded: LoadedShop) -> None:
    truth = sum(order["amount_usd"] for order in loaded.rows("shop/orders", f"order_date = '{SECOND}'"))
    loaded.naive("revenue_daily", SECOND, SECOND)
    seen = {
        place: sum(row["revenue"] for row in loaded.rows(f"{place}/revenue_daily", f"order_date = '{SECOND}'"))
        for place in ("naive", "shop")
    }
    assert seen == {"naive": 2 * truth, "shop": truth}


def test_orders_copy_loses_orders_where_the_mark_only_looks_forward(loaded: LoadedShop) -> None:
    orders = {order["order_id"]: order for order in loaded.rows("shop/orders")}
    last = max(order["updated_at"] for order in orders.values() if str(order["order_date"]) == FIRST)
    late = {key for key, order in orders.items() if str(order["order_date"]) == SECOND and order["updated_at"] <= last}
    assert late, "the data has no order that was on its way when the first day was copied"
    loaded.naive("orders_copy", FIRST, SECOND)
    assert {order["order_id"] for order in loaded.rows("naive/orders_copy")} == set(orders) - late
    # Ours is two hours behind, as its lag says, and has every order up to there.
    newest = max(order["updated_at"] for order in orders.values())
    held_back = {key for key, order in orders.items() if (newest - order["updated_at"]).total_seconds() < 7200}
    assert {order["order_id"] for order in loaded.rows("shop/orders_copy")} == set(orders) - held_back


def test_orders_copy_has_a_changed_order_twice_where_it_is_appended(loaded: LoadedShop) -> None:
    changed = min(order["order_id"] for order in loaded.rows("shop/orders"))
    loaded.add(
        "shop/orders", newest_by="updated_at", order_id=1
    )  # it has the newest stamp there is, and comes only now
    loaded.spark.sql(
        f"UPDATE delta.`{loaded.shop.warehouse}/shop/orders` SET amount = 0, updated_at = updated_at + INTERVAL 30 DAYS"
        f" WHERE order_id = {changed}"
    )
    loaded.naive("orders_copy", SECOND)
    shown = loaded.shop.call("run", "orders_copy")
    assert shown.code == 0, shown.err
    naive = Counter(order["order_id"] for order in loaded.rows("naive/orders_copy"))
    ours = Counter(order["order_id"] for order in loaded.rows("shop/orders_copy"))
    assert (naive[changed], naive[1]) == (2, 0)
    assert (ours[changed], ours[1]) == (1, 1)
    assert set(ours.values()) == {1}


def test_daily_customer_summary_loses_its_history_where_it_is_overwritten(loaded: LoadedShop) -> None:
    loaded.naive("daily_customer_summary", FIRST, SECOND)
    days = {
        place: {str(row["order_date"]) for row in loaded.rows(f"{place}/daily_customer_summary")}
        for place in ("naive", "shop")
    }
    assert days == {"naive": {SECOND}, "shop": {FIRST, SECOND}}
    shown = {
        row["customer_id"]: row["orders"]
        for row in loaded.rows("shop/daily_customer_summary", f"order_date = '{FIRST}'")
    }
    assert shown == Counter(order["customer_id"] for order in loaded.rows("shop/orders", f"order_date = '{FIRST}'"))


def test_dim_products_goes_back_to_an_old_price_where_any_row_wins(loaded: LoadedShop) -> None:
    changes = loaded.rows("shop/product_changes")
    newest = {row["product_id"]: row for row in sorted(changes, key=lambda row: row["updated_at"])}
    both = [
        key for key in newest if {FIRST, SECOND} <= {str(c["change_date"]) for c in changes if c["product_id"] == key}
    ]
    assert both, "the data has no product that changed on both days"
    loaded.naive("dim_products", FIRST, SECOND, FIRST)
    repaired = loaded.shop.call("restate", "dim_products", "--date", FIRST)
    assert repaired.code == 0, repaired.err
    seen = {
        place: {row["product_id"]: row["price_usd"] for row in loaded.rows(f"{place}/dim_products")}
        for place in ("naive", "shop")
    }
    truth = {row["product_id"]: row["price_usd"] for row in loaded.rows("shop/products")}
    truth |= {key: row["price_usd"] for key, row in newest.items()}
    assert seen["shop"] == truth
    assert {key for key in both if seen["naive"][key] != truth[key]} == set(both)


def test_events_raw_has_every_delivery_twice_where_it_is_appended_again(loaded: LoadedShop) -> None:
    loaded.naive("events_raw", SECOND, SECOND)
    again = loaded.shop.call("run", "events_raw", "--date", SECOND)
    assert "already published" in again.out
    delivered = len(loaded.rows("shop/events", f"delivered_on = '{SECOND}'"))
    assert len(loaded.rows("naive/events_raw", f"delivered_on = '{SECOND}'")) == 2 * delivered
    assert loaded.rows("shop/events_raw") == loaded.rows("shop/events")


def test_fact_events_shows_bad_rows_where_the_check_comes_last(loaded: LoadedShop) -> None:
    events = loaded.rows("shop/events")
    twice = [key for key, count in Counter(event["event_id"] for event in events).items() if count > 1]
    late = [
        event for event in events if event["delivered_on"] > event["event_date"] and str(event["event_date"]) == FIRST
    ]
    assert twice, "the data has no event that was delivered twice"
    assert late, "the data has no event that was delivered late"
    before = loaded.rows("shop/fact_events")
    assert {row["event_id"] for row in before} == {event["event_id"] for event in events}
    assert len(before) == len({row["event_id"] for row in before})
    third = "2026-06-10"
    loaded.add("shop/events", newest_by="event_at", event_id="bad", kind=None, delivered_on=third)
    with pytest.raises(ValueError, match="1 events of 2026-06-09 have no kind"):
        loaded.naive("fact_events", SECOND)
    assert loaded.shop.call("run", "events_raw", "--date", third).code == 0
    refused = loaded.shop.call("run", "fact_events", "--date", SECOND)
    assert (refused.code, "audit not_null" in refused.err) == (1, True)
    assert len(loaded.rows("naive/fact_events", "event_id = 'bad'")) == 1
    assert loaded.rows("shop/fact_events") == before


def test_daily_inventory_adjustments_are_booked_twice_where_their_ids_are_new(loaded: LoadedShop) -> None:
    loaded.naive("daily_inventory_adjustments", SECOND, SECOND)
    restated = loaded.shop.call("restate", "daily_inventory_adjustments", "--date", SECOND)
    assert "IDENTICAL" in restated.out, restated.err
    moved = len(loaded.rows("shop/stock_movements", f"movement_date = '{SECOND}'"))
    assert len(loaded.rows("naive/daily_inventory_adjustments", f"movement_date = '{SECOND}'")) == 2 * moved
    booked = loaded.rows("shop/daily_inventory_adjustments", f"adjustment_date = '{SECOND}'")
    sold = len(loaded.rows("shop/order_lines", f"order_date = '{SECOND}'"))
    assert (len(booked), len({row["txn_id"] for row in booked})) == (moved + sold, moved + sold)


def test_stock_levels_move_twice_where_a_counter_runs_twice(loaded: LoadedShop) -> None:
    def added_up(*tables: Rows) -> Counter[tuple[int, str]]:
        total: Counter[tuple[int, str]] = Counter()
        for row in (row for table in tables for row in table):
            total[row["product_id"], row["warehouse"]] += row["quantity"]
        return total

    opening = loaded.rows("shop/stock")
    moved = loaded.rows("shop/stock_movements", f"movement_date = '{SECOND}'")
    loaded.naive("stock_levels", SECOND, SECOND)
    assert added_up(loaded.rows("naive/stock_levels")) == added_up(opening, moved, moved)
    again = loaded.shop.call("run", "stock_levels")
    assert again.code == 0, again.err
    ours = added_up(loaded.rows("shop/stock_levels"))
    assert ours == added_up(opening, loaded.rows("shop/daily_inventory_adjustments"))
    sold = sum(line["quantity"] for line in loaded.rows("shop/order_lines"))
    both = sum(row["quantity"] for row in (*opening, *loaded.rows("shop/stock_movements")))
    assert sum(ours.values()) == both - sold
