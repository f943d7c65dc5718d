"""What is already published is found without Java, and never said of what a full look would compute."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample

from twice.core.ledger.record import Claim, ClaimRequest
from twice.core.scope import slice_named
from twice.runtime.run.explain import explain_run
from twice.runtime.run.quick import would_stay
from twice.wiring.open_project import open_project

from .conftest import TOML, Answer, Shop

pytestmark = pytest.mark.timeout(300)

NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
DAYS = ("2026-06-09", "2026-06-10")
PIPELINE = """
from pyspark.sql import functions as F
from twice import Daily, Policy, Whole, append_once, insert_new, merge, param, read, replace, sql_task, task
from pipelines.rates import RATE

DAILY = Daily("order_date", start="2026-01-01")
ORDERS = {"orders": read("shop.orders", by="order_date")}

@task("shop.revenue", scope=DAILY, inputs=ORDERS, write=replace())
def revenue(orders):
    return orders.groupBy("order_date", "region").agg((F.sum("amount") * RATE).alias("revenue"))

@task("shop.regions", scope=Whole(), inputs={"orders": read("shop.orders")}, write=replace())
def regions(orders):
    return orders.groupBy("region").agg(F.count("*").alias("orders"))

@task("shop.latest", scope=DAILY, inputs=ORDERS, write=merge("order_id", newest_by="order_date"))
def latest(orders):
    return orders.select("order_id", "order_date", "region", "amount")

@task("shop.events", scope=DAILY, inputs=ORDERS, write=append_once())
def events(orders):
    return orders.select("order_id", "order_date", "region", "amount")

@task("shop.landed", scope=DAILY, write=replace(), inputs={
    "files": read.files("landing/{ds}/*.csv", format="csv", options={"header": True}, missing="empty",
                        schema="order_date DATE, amount BIGINT"),
    "fx": param.json("fx.json")})
def landed(files, fx):
    return files.withColumn("eur", F.col("amount") * fx["usd"])

@task("shop.opened", scope=DAILY, inputs=ORDERS, write=replace())
def opened(orders):
    from pathlib import Path
    factor = int((Path(__file__).parents[1] / "factor").read_text())
    return orders.select("order_date", (F.col("amount") * factor).alias("more"))

summed = sql_task("pipelines/summed.sql", "shop.summed", scope=DAILY, inputs=ORDERS, write=replace())
"""
QUICK = ("revenue", "regions", "latest", "events", "landed", "summed")
"""Not `opened`: what its file holds only its plan can say."""


@pytest.fixture
def made(tmp_path: Path, put_orders: Callable[..., None]) -> Shop:
    made = Shop(tmp_path / "shop")
    made.write("twice.toml", TOML)
    made.write("pipelines/shop.py", PIPELINE)
    made.write("pipelines/rates.py", "RATE = 2\n")
    made.write("pipelines/summed.sql", "SELECT order_date, sum(amount) AS amount FROM shop.orders GROUP BY order_date")
    made.write("fx.json", json.dumps({"usd": 2}))
    made.write("factor", "3")
    made.write("landing/2026-06-09/a.csv", "order_date,amount\n2026-06-09,5\n")
    put_orders(made, *((number, day, "EU", "1.00") for number, day in enumerate((*DAYS, "2026-06-01", "2026-06-02"))))
    return made


def run_days(shop: Shop, *tasks: str, days: tuple[str, ...] = DAYS) -> None:
    for task in tasks:
        for day in days if task != "regions" else (None,):
            answer = shop.call("run", task, *(("--date", day) if day else ()))
            assert answer.code == 0, answer.err


def answers(shop: Shop, days: tuple[str, ...] = DAYS) -> dict[tuple[str, str], tuple[bool, bool, str, str]]:
    """For each slice: whether the quick look says that it stays, whether a full look says so; and what both say."""
    found = {}
    with open_project(shop.root) as opened:
        quick = opened.without_engine()
        for name in (*QUICK, "opened"):
            task = opened.project.task(name)
            for label in days if name != "regions" else (None,):
                slice_ = slice_named(task.scope, label)
                short, (full,) = would_stay(quick, task, slice_), explain_run(opened.context, task, slice_)
                said = "" if short is None else f"{short[0].generation} {short[0].version} {short[0].why}"
                found[name, slice_.label] = (
                    short is not None,
                    not full.compute,
                    said,
                    f"{full.generation} {full.version} {full.why}",
                )
    return found


def test_what_is_already_published_is_found_without_java(made: Shop, spark: Any) -> None:
    run_days(made, *QUICK)

    def alone(*args: str) -> Answer:
        return made.spawn(*args, env=NO_JAVA)

    before = {name: made.call("history", name, "-o", "json").data for name in QUICK}
    for name in ("revenue", "landed"):
        again = alone("run", name, "--date", "2026-06-09", "-o", "json")
        assert again.code == 0, again.err
        (result,) = again.data["results"]
        assert (result["outcome"], result["why"]) == ("already published", "same code, same inputs")
        assert result["slices"][0]["rows"] == 1
        after = made.call("history", name, "-o", "json").data
        assert len(after["attempts"]) == len(before[name]["attempts"]) + 1
        assert after["attempts"][0]["state"] == "unchanged"
    shown = alone("plan", "revenue", "--date", "2026-06-09")
    assert "would stay as it is (same code, same inputs)" in shown.out
    made.write("pipelines/rates.py", "RATE = 3\n")
    changed = alone("run", "revenue", "--date", "2026-06-09")
    assert changed.code == 4, "other code cannot be called the same without a full look"


def quick_answer(shop: Shop, name: str) -> bool:
    with open_project(shop.root) as opened:
        task = opened.project.task(name)
        return would_stay(opened.without_engine(), task, slice_named(task.scope, DAYS[0])) is not None


@pytest.fixture
def published(made: Shop) -> Shop:
    """One task that is published, and answered for quickly."""
    assert made.call("run", "revenue", "--date", DAYS[0]).code == 0
    assert quick_answer(made, "revenue")
    return made


def test_another_value_of_a_constant_leads_to_the_full_way(published: Shop) -> None:
    """A value that no source shows: it came from the environment when the file was loaded."""
    published.write("pipelines/rates.py", "import os\nRATE = int(os.environ.get('TWICE_TEST_RATE', '2'))\n")
    assert published.call("run", "revenue", "--date", DAYS[0]).code == 0
    assert quick_answer(published, "revenue")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWICE_TEST_RATE", "5")
        assert not quick_answer(published, "revenue")


def test_what_others_did_to_the_table_is_noted_on_the_full_way(published: Shop, spark: Any) -> None:
    _sql(published, spark, "DELETE FROM {} WHERE region = 'EU'", "revenue")
    assert not quick_answer(published, "revenue")
    assert "was changed by others" in published.call("run", "revenue", "--date", DAYS[0]).out


def test_an_attempt_that_did_not_report_back_leads_to_the_full_way(published: Shop) -> None:
    with open_project(published.root) as opened:
        wanted = ClaimRequest("revenue", [DAYS[0]], "of-a-dead-process", "run", "elsewhere")
        assert isinstance(opened.ledger.claim(wanted, timedelta(minutes=5)), Claim)
        opened.ledger.release("of-a-dead-process")
    assert not quick_answer(published, "revenue")


def _late_order(shop: Shop, spark: Any, day: str) -> None:
    table = f"delta.`{shop.warehouse}/shop/orders`"
    columns, number = "(order_id, order_date, region, amount)", random.randrange(10**6)
    spark.sql(f"INSERT INTO {table} {columns} VALUES ({number}, DATE '{day}', 'US', 4.00)")


def _sql(shop: Shop, spark: Any, statement: str, table: str = "orders") -> None:
    spark.sql(statement.format(f"delta.`{shop.warehouse}/shop/{table}`")).collect()


EVENTS: dict[str, Callable[[Shop, Any], object]] = {
    "a late order": lambda shop, spark: _late_order(shop, spark, "2026-06-09"),
    "an order of another day": lambda shop, spark: _late_order(shop, spark, "2026-06-02"),
    "files are compacted": lambda shop, spark: _sql(shop, spark, "OPTIMIZE {}"),
    "somebody deletes from the result": lambda shop, spark: _sql(
        shop, spark, "DELETE FROM {} WHERE order_date = '2026-06-09'", "revenue"
    ),
    "somebody empties the whole result": lambda shop, spark: _sql(shop, spark, "DELETE FROM {}", "regions"),
    "an input gets a column": lambda shop, spark: _sql(shop, spark, "ALTER TABLE {} ADD COLUMN note STRING"),
    "an input is put back": lambda shop, spark: _sql(shop, spark, "RESTORE {} TO VERSION AS OF 0"),
    "a file comes": lambda shop, _: shop.write("landing/2026-06-10/b.csv", "order_date,amount\n2026-06-10,7\n"),
    "a declared value changes": lambda shop, _: shop.write("fx.json", json.dumps({"usd": random.random()})),
    "a file that Python opens changes": lambda shop, _: shop.write("factor", str(random.randrange(10**6))),
    "a constant of another module changes": lambda shop, _: shop.write(
        "pipelines/rates.py", f"RATE = {random.randrange(10**6)}\n"
    ),
    "a day is restated": lambda shop, _: shop.call("restate", "revenue", "--date", "2026-06-09"),
    "everything is run": lambda shop, _: run_days(shop, *QUICK, "opened"),
}


IN_SHORT = (
    "an order of another day",
    "files are compacted",
    "a late order",
    "a file that Python opens changes",
)


@pytest.mark.parametrize("rounds", sample((0, 2), of=(0,)))
def test_over_a_random_history_a_quick_answer_is_that_of_a_full_look(made: Shop, spark: Any, rounds: int) -> None:
    days = DAYS if rounds else DAYS[:1]
    run_days(made, *QUICK, "opened", days=days)
    settled = answers(made, days)
    assert {name for (name, _), (short, *_) in settled.items() if short} == set(QUICK), settled
    draw = random.Random(17)
    order = [name for _ in range(rounds) for name in draw.sample(sorted(EVENTS), len(EVENTS))] or IN_SHORT
    quick = 0
    for at, event in enumerate(order):
        EVENTS[event](made, spark)
        for slice_, (short, full, said_shortly, said) in answers(made, days).items():
            where = f"after {order[: at + 1]}, {slice_}: {said_shortly!r}, {said!r}"
            assert full or not short, where
            assert not short or said_shortly == said, where
            quick += short
    assert quick > len(order), "it must answer often, not never"
