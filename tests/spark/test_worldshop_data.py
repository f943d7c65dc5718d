"""The shop's data: the same values on every machine and on every run."""

from __future__ import annotations

import importlib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

SHOP = Path(__file__).resolve().parents[2] / "examples" / "worldshop"

# Rows and the sum of each row's xxhash64, for 2 days of 200 orders. A change here changes everyone's shop.
CHECKSUMS = {
    "orders": (400, -30770986616968387526),
    "order_lines": (782, -283354749988988704391),
    "customers": (1000, -82870602230508160480),
    "products": (200, -151832597677057041254),
    "product_changes": (20, 30683930516245460568),
    "events": (1205, 289877976261865025495),
    "stock": (1000, 162465294440504082163),
    "stock_movements": (40, -2183018779528793052),
}


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SHOP))
    return importlib.import_module("generate")


def _checksum(frame: Any) -> tuple[int, int]:
    from pyspark.sql import functions as F  # noqa: N812

    hashed = frame.select(F.xxhash64(*frame.columns).cast("decimal(38,0)").alias("hash"))
    row = hashed.agg(F.count("*").alias("rows"), F.sum("hash").alias("hash")).first()
    return row["rows"], int(row["hash"])


def test_every_table_has_the_same_values_on_every_machine(session: Any, generate: Any) -> None:
    size = generate.Size(days=2, orders_per_day=200)
    assert {name: _checksum(table.make(session, size)) for name, table in generate.TABLES.items()} == CHECKSUMS


@pytest.mark.parametrize("name", ["orders", "events"])
def test_a_day_is_the_same_whichever_days_are_made_with_it(session: Any, generate: Any, name: str) -> None:
    table = generate.TABLES[name]
    both = table.make(session, generate.Size(days=2, orders_per_day=50))
    alone = table.make(session, generate.Size(days=1, orders_per_day=50, first=date(2026, 6, 2)))
    assert _checksum(both.where(f"{table.by} = DATE '2026-06-02'")) == _checksum(alone)


def test_some_events_come_late_and_some_come_twice(session: Any, generate: Any) -> None:
    size = generate.Size(days=2, orders_per_day=2000)
    events = generate.events(session, size)
    assert events.where("delivered_on < event_date OR delivered_on > date_add(event_date, 1)").count() == 0
    assert events.where("to_date(delivered_at) <> delivered_on OR to_date(event_at) <> event_date").count() == 0
    late = events.where("delivered_on > event_date").count() / events.count()
    assert 0.01 < late < 0.04
    again = events.groupBy("event_id").count().where("count > 1")
    assert again.count() > 0
    assert (
        again.join(events, "event_id")
        .groupBy("event_id")
        .agg({"kind": "approx_count_distinct"})
        .where("`approx_count_distinct(kind)` > 1")
        .count()
        == 0
    )


def test_a_smaller_day_is_the_beginning_of_a_larger_one(session: Any, generate: Any) -> None:
    larger = generate.orders(session, generate.Size(days=1, orders_per_day=60))
    smaller = generate.orders(session, generate.Size(days=1, orders_per_day=40))
    assert (smaller.exceptAll(larger).count(), larger.exceptAll(smaller).count()) == (0, 20)


def test_the_lines_of_an_order_add_up_to_it(session: Any, generate: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    size = generate.Size(days=1, orders_per_day=300)
    lines = generate.order_lines(session, size).groupBy("order_id").agg(F.sum("amount_usd").alias("lines"))
    joined = generate.orders(session, size).join(lines, "order_id", "full")
    assert joined.count() == 300
    assert joined.where("NOT lines <=> amount_usd").count() == 0


def test_writing_a_day_again_replaces_it_and_touches_no_other(session: Any, generate: Any, tmp_path: Path) -> None:
    days = generate.Size(days=2, orders_per_day=30)
    place = str(generate.write(session, tmp_path, days, only=["orders"])["orders"])
    before = session.read.format("delta").load(place).collect()
    broken = generate.Size(days=1, orders_per_day=30, broken_region="us")
    generate.write(session, tmp_path, broken, only=["orders"])
    seen = session.read.format("delta").load(place)
    assert seen.where("amount_usd IS NULL").select("region", "order_date").distinct().collect() == [
        ("us", date(2026, 6, 1))
    ]
    generate.write(session, tmp_path, days, only=["orders"])
    assert sorted(session.read.format("delta").load(place).collect()) == sorted(before)
