"""What is already published is found without Java, and never said of what a full look would compute."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.sample import sample

from twice.core.backfill.plan import PlannedSlice
from twice.core.ledger.record import Claim, ClaimRequest
from twice.core.scope import slice_named
from twice.core.slice import Slice
from twice.core.task import Task
from twice.engine.code import recipe
from twice.runtime.run.chain import Selection
from twice.runtime.run.explain import explain_run
from twice.runtime.run.quick import chain_already_published, would_stay
from twice.runtime.staleness.known_statuses import known_statuses
from twice.runtime.staleness.slice_status import slice_statuses
from twice.targets.delta.log.commits import LocalLogFiles
from twice.wiring.open_project import open_project

from .conftest import TOML, Answer, Shop

pytestmark = pytest.mark.timeout(300)

NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
DAYS = ("2026-06-09", "2026-06-10")
PIPELINE = """
from pyspark.sql import functions as F
from twice import Daily, Policy, Since, Whole, append_once, insert_new, merge, param, read, replace, sql_task, task
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

@task("shop.copied", scope=Since("order_id", initial=0), inputs={"orders": read("shop.orders", by="order_id")},
      write=insert_new("order_id"))
def copied(orders):
    return orders

@task("server:shop.served", scope=DAILY, inputs=ORDERS, write=replace())
def served(orders):
    return orders.groupBy("order_date").agg(F.sum("amount").alias("amount"))

@task("shop.zoned", scope=DAILY, inputs=ORDERS | {"zones": read("server:public.zones", watch=False)}, write=replace())
def zoned(orders, zones):
    return orders.join(zones, "region").groupBy("order_date", "zone").agg(F.count("*").alias("orders"))

summed = sql_task("pipelines/summed.sql", "shop.summed", scope=DAILY, inputs=ORDERS, write=replace())
"""
QUICK = ("copied", "revenue", "regions", "latest", "events", "landed", "served", "summed")
"""Not `opened`: what its file holds only its plan can say. Nor a plan of `zoned`, which says more of what is not
watched."""


UNDATED = ("copied", "regions")


@pytest.fixture
def made(tmp_path: Path, put_orders: Callable[..., None], database: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path / "shop")
    monkeypatch.setenv("TWICE_TEST_URL", database)
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE zones AS SELECT 'EU' AS region, 'one' AS zone")
    made.write("twice.toml", f'{TOML}\n[connections.server]\nurl = "${{env:TWICE_TEST_URL}}"\n')
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
        for day in days if task not in UNDATED else (None, None):
            answer = shop.call("run", task, *(("--date", day) if day else ()))
            assert answer.code == 0, answer.err


def answers(shop: Shop, days: tuple[str, ...] = DAYS) -> dict[tuple[str, str], tuple[bool, bool, str, str]]:
    """For each slice: whether the quick look says that it stays, whether a full look says so; and what both say."""
    found = {}
    with open_project(shop.root) as opened, opened.without_engine() as quick:
        for name in (*QUICK, "opened"):
            task = opened.project.task(name)
            for label in days if name not in UNDATED else (None,):
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
    for name in ("revenue", "landed", "served"):
        again = alone("run", name, "--date", "2026-06-09", "-o", "json")
        assert again.code == 0, again.err
        (result,) = again.data["results"]
        assert (result["outcome"], result["why"]) == ("already published", "same code, same inputs")
        assert result["slices"][0]["rows"] == 1
        after = made.call("history", name, "-o", "json").data
        assert len(after["attempts"]) == len(before[name]["attempts"]) + 1
        assert after["attempts"][0]["state"] == "unchanged"
    (idle,) = alone("run", "copied", "-o", "json").data["results"]
    assert (idle["outcome"], idle["mark"], idle["why"]) == (
        "nothing new",
        "3",
        "the source has not moved beyond the mark",
    )
    assert "nothing new" in alone("plan", "copied").out
    shown = alone("plan", "revenue", "--date", "2026-06-09")
    assert "would stay as it is (same code, same inputs)" in shown.out
    made.write("pipelines/rates.py", "RATE = 3\n")
    changed = alone("run", "revenue", "--date", "2026-06-09")
    assert changed.code == 4, "other code cannot be called the same without a full look"


def test_a_day_that_is_published_to_a_server_too_is_found_without_java(made: Shop) -> None:
    """Of a table there that is not watched only that it exists is asked."""
    day, chosen = ("--date", DAYS[0]), ("revenue", "served", "zoned")
    assert made.call("run", *chosen, *day).code == 0
    with psycopg.connect(os.environ["TWICE_TEST_URL"]) as connection:
        connection.execute("INSERT INTO zones VALUES ('US', 'two')")
    again = made.spawn("run", *chosen, *day, "-o", "json", env=NO_JAVA)
    assert again.code == 0, again.err
    outcomes = {end["task"]: [each["outcome"] for each in end["results"]] for end in again.data["tasks"]}
    assert outcomes == {name: ["already published"] for name in chosen}
    planned = made.spawn("plan", "revenue", "served", *day, env=NO_JAVA)
    assert planned.code == 0, planned.err
    assert planned.out.count("would stay as it is") == 2
    with psycopg.connect(os.environ["TWICE_TEST_URL"]) as connection:
        connection.execute("DROP TABLE shop.served")
    gone = made.spawn("run", "served", *day, env=NO_JAVA)
    assert gone.code == 4, "a table that is gone is no reason to call its slices published"


MISSING = "2026-06-08"


def statuses(shop: Shop) -> dict[str, tuple[dict[Slice, PlannedSlice], dict[Slice, PlannedSlice]]]:
    """Of each task: what logs and ledger alone tell of its slices, and what a full look says."""
    found = {}
    with open_project(shop.root) as opened, opened.without_engine() as quick:
        for name in (*QUICK[1:], "opened", "zoned"):
            task = opened.project.task(name)
            labels = (MISSING, *DAYS) if name not in UNDATED else (None,)
            slices = [slice_named(task.scope, label) for label in labels]
            session = opened.context.engine.fresh()
            full = zip(slices, slice_statuses(opened.context, task, slices, session), strict=True)
            found[name] = known_statuses(quick, task, slices), dict(full)
    return found


def test_what_is_to_be_done_is_found_without_java(made: Shop) -> None:
    run_days(made, "revenue", "served", "opened")

    def alone(*args: str, code: int = 0) -> Answer:
        answer = made.spawn(*args, env=NO_JAVA)
        assert answer.code == code, answer.out + answer.err
        return answer

    days, both = ("--from", DAYS[0], "--to", DAYS[1]), ("revenue", "served")
    for name in both:
        assert alone("backfill", name, *days, "-o", "json").data["backfill"]["state"] == "finished"
    assert alone("backfill", *both, *days).out.count("nothing to do") == 2
    first = ("--from", MISSING, "--to", DAYS[1])
    plan = alone("backfill", "revenue", *first, "--dry-run", "-o", "json").data["plan"]
    assert [(each["label"], each["standing"]) for each in plan["slices"]] == [(MISSING, "missing")]
    assert plan["left_out"] == {"published": 2}
    alone("backfill", "revenue", *first, code=4)
    assert len(made.call("backfill", "list", "-o", "json").data["backfills"]) == len(both), "no plan without its work"
    assert alone("status", "revenue", "--refresh", "-o", "json").data["tasks"][0]["stale"] == 0
    made.write("pipelines/rates.py", "RATE = 3\n")
    alone("status", "revenue", "--refresh")  # other code is seen in the ledger
    assert "opened could not be looked at" in alone("status", "opened", "--refresh", code=1).out


def quick_answer(shop: Shop, name: str) -> bool:
    with open_project(shop.root) as opened, opened.without_engine() as quick:
        task = opened.project.task(name)
        return would_stay(quick, task, slice_named(task.scope, DAYS[0])) is not None


@pytest.fixture
def published(made: Shop) -> Shop:
    """One task that is published, and answered for quickly."""
    assert made.call("run", "revenue", "--date", DAYS[0]).code == 0
    assert quick_answer(made, "revenue")
    return made


def test_a_command_reads_each_table_and_each_function_once(made: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ("revenue", "latest")
    for name in chosen:
        run_days(made, name)
    read: Counter[str] = Counter()
    text, recipe_of = LocalLogFiles.text, recipe.recipe

    def counted_text(files: LocalLogFiles, name: str) -> str | None:
        read[name.rpartition(".")[2]] += 1
        return text(files, name)

    def counted_recipe(task: Task) -> str | None:
        read["recipe"] += 1
        return recipe_of(task)

    with open_project(made.root) as opened, opened.without_engine() as quick:
        monkeypatch.setattr(LocalLogFiles, "text", counted_text)
        monkeypatch.setattr(recipe, "recipe", counted_recipe)
        which = Selection(tuple(opened.project.task(name) for name in chosen))
        assert chain_already_published(quick, DAYS[0], which) is not None
        assert (read["crc"], read["recipe"]) == (3, 2), "of the two results and their input; of two functions"


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


def _digit() -> str:
    """Not longer: that would be another type of the result, which a table refuses."""
    return str(random.randrange(1, 10))


def _sql(shop: Shop, spark: Any, statement: str, table: str = "orders") -> None:
    spark.sql(statement.format(f"delta.`{shop.warehouse}/shop/{table}`")).collect()


def _of_server(statement: str) -> None:
    with psycopg.connect(os.environ["TWICE_TEST_URL"]) as connection, suppress(psycopg.errors.UndefinedTable):
        connection.execute(statement)


EVENTS: dict[str, Callable[[Shop, Any], object]] = {
    "a late order": lambda shop, spark: _late_order(shop, spark, "2026-06-09"),
    "an order of another day": lambda shop, spark: _late_order(shop, spark, "2026-06-02"),
    "files are compacted": lambda shop, spark: _sql(shop, spark, "OPTIMIZE {}"),
    "somebody deletes from the result": lambda shop, spark: _sql(
        shop, spark, "DELETE FROM {} WHERE order_date = '2026-06-09'", "revenue"
    ),
    "somebody empties the whole result": lambda shop, spark: _sql(shop, spark, "DELETE FROM {}", "regions"),
    "somebody deletes from the server": lambda shop, _: _of_server("DELETE FROM shop.served"),
    "a table of the server is gone": lambda shop, _: _of_server("DROP TABLE shop.served"),
    "what is kept on the server is gone": lambda shop, _: _of_server("DELETE FROM twice.generations"),
    "a token of the server is put back": lambda shop, _: _of_server(
        "UPDATE twice.tokens SET generation = generation - 1 WHERE app_id LIKE '%-09' AND generation > 0"
    ),
    "a day of the server is restated": lambda shop, _: shop.call("restate", "served", "--date", "2026-06-09"),
    "an input gets a column": lambda shop, spark: _sql(shop, spark, "ALTER TABLE {} ADD COLUMN note STRING"),
    "an input is put back": lambda shop, spark: _sql(shop, spark, "RESTORE {} TO VERSION AS OF 0"),
    "a file comes": lambda shop, _: shop.write("landing/2026-06-10/b.csv", "order_date,amount\n2026-06-10,7\n"),
    "a declared value changes": lambda shop, _: shop.write("fx.json", json.dumps({"usd": random.randrange(10**6)})),
    "a file that Python opens changes": lambda shop, _: shop.write("factor", _digit()),
    "a constant of another module changes": lambda shop, _: shop.write("pipelines/rates.py", f"RATE = {_digit()}\n"),
    "a day is restated": lambda shop, _: shop.call("restate", "revenue", "--date", "2026-06-09"),
    "everything is run": lambda shop, _: run_days(shop, *QUICK, "opened"),
}


IN_SHORT = (
    "an order of another day",
    "files are compacted",
    "a late order",
    "a file that Python opens changes",
    "a token of the server is put back",
)


@pytest.mark.parametrize("rounds", sample((0, 2), of=(0,)))
def test_over_a_random_history_a_quick_answer_is_that_of_a_full_look(made: Shop, spark: Any, rounds: int) -> None:
    days = DAYS if rounds else DAYS[:1]
    run_days(made, *QUICK, "opened", days=days)
    settled = answers(made, days)
    assert {name for (name, _), (short, *_) in settled.items() if short} == set(QUICK), settled
    draw = random.Random(17)
    order = [name for _ in range(rounds) for name in draw.sample(sorted(EVENTS), len(EVENTS))] or IN_SHORT
    quick = told = 0
    for at, event in enumerate(order):
        EVENTS[event](made, spark)
        for slice_, (short, full, said_shortly, said) in answers(made, days).items():
            where = f"after {order[: at + 1]}, {slice_}: {said_shortly!r}, {said!r}"
            assert full or not short, where
            assert not short or said_shortly == said, where
            quick += short
        for name, (known, full_look) in statuses(made).items():
            told += len(known)
            for day, status in known.items():
                assert status == full_look[day], f"after {order[: at + 1]}, {name}"
    assert quick > len(order), "it must answer often, not never"
    assert told > quick, "of a slice that is not right it is mostly known, too"
