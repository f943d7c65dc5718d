"""What changes while a run, a backfill or a recover is under way, on real Delta: marks, code, declarations, tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import twice
from twice.core.backfill.plan import BackfillRequest
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.errors import StageLost
from twice.project import backfill as backfills
from twice.runtime.backfill.worker import Event, Stop
from twice.wiring.open_project import open_project

from .conftest import REVENUE, TOML, Shop

DAY = "2026-06-09"
COPY = """
from twice import Policy, Retry, Since, append_once, read, task

@task("shop.copy", scope=Since("number", initial=0), inputs={"changes": read("shop.changes", by="number")},
      write=append_once(), policy=Policy(retry=Retry(attempts=1)))
def copy(changes):
    return changes
"""
ANNOUNCED = """
from pathlib import Path
from twice import Daily, call, read, replace, task

def announce(result, key):
    with (Path(__file__).parents[1] / "received").open("a") as file:
        file.write(f"{result.task} {result.slice}\\n")

@task("shop.announced", scope=Daily("order_date", start="2026-01-01"), write=replace(),
      inputs={"orders": read("shop.orders", by="order_date")}, effects=[call(announce, keyed=False)])
def announced(orders):
    return orders
"""
AWAY = """
from twice import Daily, read, replace, task

@task("shop.away", scope=Daily("order_date", start="2026-01-01"), write=replace(),
      inputs={"orders": read("shop.orders", by="order_date")})
def away(orders):
    return orders
"""


def run_day(shop: Shop, task: str) -> Any:
    return twice.run(task, date=DAY, project=shop.root)


def leases_run_out(shop: Shop) -> None:
    """Of all that is at work, as if it had stopped reporting."""
    with open_project(shop.root) as opened:
        for attempt in opened.ledger.open_attempts():
            opened.ledger.release(attempt.id)


def meanwhile(at: Point, happens: Callable[[], None]) -> Any:
    """Once: what happens passes the same points itself."""
    passed: list[Point] = []

    def act(point: Point | SendPoint) -> None:
        if point is at and not passed:
            passed.append(at)
            happens()

    return armed(act)


@pytest.fixture
def copying(tmp_path: Path, spark: Any) -> Shop:
    """An incremental copy, into a partitioned table, that has read its first row: the newest one waits for the next."""
    shop = Shop(tmp_path / "shop")
    shop.write("twice.toml", TOML)
    shop.write("pipelines/copy.py", COPY)
    changes(spark, shop, 10, 20)
    columns = "(number BIGINT, amount BIGINT, kind STRING)"
    spark.sql(f"CREATE TABLE delta.`{shop.warehouse}/shop/copy` {columns} USING delta PARTITIONED BY (kind)")
    assert shop.call("run", "copy").code == 0
    return shop


def changes(spark: Any, shop: Shop, *amounts: int) -> None:
    """The whole source, as another system writes it: numbered from 1 on."""
    rows = [(number, amount, "sale") for number, amount in enumerate(amounts, start=1)]
    frame = spark.createDataFrame(rows, "number BIGINT, amount BIGINT, kind STRING")
    frame.coalesce(1).write.format("delta").mode("overwrite").save(str(shop.warehouse / "shop" / "changes"))


def copied(spark: Any, shop: Shop) -> list[int]:
    rows = spark.read.format("delta").load(str(shop.warehouse / "shop" / "copy")).collect()
    return [row.amount for row in sorted(rows, key=lambda row: row.number)]


@pytest.mark.long
def test_a_run_under_way_when_its_mark_is_reset_lands_nothing_where_the_mark_comes_back(
    copying: Shop, spark: Any
) -> None:
    """It has read a row that the source had wrong; landed late, it would move the mark past the repaired one."""
    changes(spark, copying, 10, 222, 30)

    def repaired() -> None:
        leases_run_out(copying)
        changes(spark, copying, 10, 20, 30)
        for to in ("1", "2"):
            reset = copying.call("mark", "reset", "copy", "--to", to, "--reason", "the source was repaired", "--yes")
            assert f"is now {to}\n" in reset.out, reset.out + reset.err

    with meanwhile(Point.PUBLISHING, repaired), suppress(StageLost):
        twice.run("copy", project=copying.root)
    assert copying.call("run", "copy").code == 0
    assert copied(spark, copying) == [10, 20]


@pytest.mark.long
def test_a_source_spelled_with_its_table_system_is_read_on_from_its_mark(copying: Shop, spark: Any) -> None:
    copying.write("pipelines/copy.py", COPY.replace("shop.changes", "delta:shop.changes"))
    changes(spark, copying, 10, 20, 30)
    ran = copying.call("run", "copy")
    assert ran.code == 0, ran.err
    assert copied(spark, copying) == [10, 20]


@pytest.mark.long
def test_a_restating_backfill_restates_a_day_that_older_code_restated_after_it_was_planned(
    stocked: Shop, spark: Any
) -> None:
    older = REVENUE.replace("orders.groupBy", "orders.where(\"region = 'EU'\").groupBy")
    run_day(stocked, "revenue_daily")
    with open_project(stocked.root) as opened:
        asked = BackfillRequest("revenue_daily", DAY, DAY, only=("published",), restate=True)
        backfills.start(opened, asked, "again")
    stocked.write("pipelines/revenue.py", older)
    twice.restate("revenue_daily", date=DAY, project=stocked.root)
    stocked.write("pipelines/revenue.py", REVENUE)
    worked = stocked.call("worker", "--backfill", "again")
    assert "1 of 1 slice is done" in worked.out, worked.out + worked.err
    table = spark.read.format("delta").load(str(stocked.warehouse / "shop" / "revenue_daily"))
    assert sorted(row.region for row in table.collect()) == ["EU", "US"]


def test_a_backfill_whose_worker_was_killed_after_its_last_batch_is_finished_by_recover(stocked: Shop) -> None:
    def killed(_: Event) -> None:
        raise Crash

    with open_project(stocked.root) as opened:
        backfills.start(opened, BackfillRequest("revenue_daily", DAY, DAY), "day")
        with pytest.raises(Crash):
            backfills.work(opened, "day", killed, Stop.never(), 1)
    assert "day  1/1 slice, no worker is running it" in stocked.call("backfill", "list").out
    assert stocked.call("recover").code == 0
    assert "day  finished  1/1 slice\n" in stocked.call("backfill", "list").out


@pytest.fixture
def announcing(stocked: Shop) -> Shop:
    stocked.write("pipelines/revenue.py", ANNOUNCED)
    return stocked


def received(shop: Shop) -> list[str]:
    file = shop.root / "received"
    return file.read_text().splitlines() if file.exists() else []


def test_what_landed_on_a_day_before_the_tasks_new_start_is_announced_by_recover(announcing: Shop) -> None:
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
        run_day(announcing, "announced")
    leases_run_out(announcing)
    # Not of the same length: Python knows a file that was changed within a second by its length.
    announcing.write("pipelines/revenue.py", ANNOUNCED.replace('start="2026-01-01"', 'start = "2026-06-10"'))
    recovered = announcing.call("recover")
    assert "is published" in recovered.out, recovered.out + recovered.err
    assert received(announcing) == [f"announced {DAY}"]


def test_what_landed_late_in_a_table_that_the_task_wrote_before_is_announced_by_recover(announcing: Shop) -> None:
    def given_another_table() -> None:
        leases_run_out(announcing)
        announcing.write("pipelines/revenue.py", ANNOUNCED.replace("shop.announced", "shop.elsewhere"))
        assert "is abandoned" in announcing.call("recover").out

    def act(point: Point | SendPoint) -> None:
        if point is Point.PUBLISHING:
            given_another_table()
        if point is Point.AFTER_PUBLISH:
            raise Crash

    with pytest.raises(Crash), armed(act):
        run_day(announcing, "announced")
    recovered = announcing.call("recover")
    assert "is published" in recovered.out, recovered.out + recovered.err
    assert received(announcing) == [f"announced {DAY}"]


@pytest.mark.long
def test_a_table_that_a_newer_delta_has_upgraded_keeps_no_other_from_being_settled_collected_and_pruned(
    announcing: Shop,
) -> None:
    announcing.write("pipelines/away.py", AWAY)
    for task in ("announced", "away"):
        with pytest.raises(Crash), armed(crash_at(Point.AFTER_PUBLISH)):
            run_day(announcing, task)
    leases_run_out(announcing)
    log = announcing.warehouse / "shop" / "away" / "_delta_log"
    feature = {"readerFeatures": ["oneOfTomorrow"], "writerFeatures": ["oneOfTomorrow"]}
    upgrade = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **feature}}
    (log / f"{len(list(log.glob('*.json'))):020}.json").write_text(f"{json.dumps(upgrade)}\n")
    recovered = announcing.call("recover")
    assert recovered.code == 1
    assert f"announced[{DAY}]: attempt" in recovered.out
    (unasked,) = [line for line in recovered.out.splitlines() if line.startswith("could not be read: shop.away: ")]
    assert "oneOfTomorrow" in unasked, unasked
    assert received(announcing) == [f"announced {DAY}"]
    for command in (("gc",), ("ledger", "prune", "--older-than", "90d")):
        answer = announcing.call(*command)
        assert (answer.code, "could not be read: shop.away: " in answer.out) == (1, True), answer.out + answer.err
    with open_project(announcing.root) as opened:
        assert [attempt.task for attempt in opened.ledger.open_attempts()] == ["away"], "it may have landed"
