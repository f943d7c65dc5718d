"""Two real worker processes share a backfill on Delta; one is killed in the middle of its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.processes.twice_worker import TwiceWorker
from tests.sample import sample

from twice.core.backfill.plan import BackfillRequest
from twice.core.backfill.result import BackfillState
from twice.project import backfill as backfills
from twice.project import upkeep
from twice.wiring.open_project import OpenProject

from .conftest import until
from .tables import commits, loose_files, rows, tokens

FIVE_DAYS = BackfillRequest("revenue", "2026-06-01", "2026-06-05", batch=1)
TWENTY_FOUR_DAYS = BackfillRequest("revenue", "2026-06-01", "2026-06-24", batch=2)


def clean(spark: Any, project: Path, last: str) -> list[tuple[Any, ...]]:
    """Every day of the backfill, computed from the source by plain Spark."""
    orders = spark.read.format("delta").load(str(project / "warehouse/shop/orders"))
    orders = orders.where(f"order_date <= DATE'{last}'")
    found = orders.groupBy("order_date", "region").agg({"amount": "sum"})
    return sorted(tuple(row) for row in found.select("order_date", "region", "sum(amount)").collect())


@pytest.mark.kill
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("asked", "count", "batches"),
    sample([(FIVE_DAYS, 5, 5), (TWENTY_FOUR_DAYS, 24, 12)], of=[(FIVE_DAYS, 5, 5)]),
    ids=["5", "24"],
)
def test_days_of_two_workers_one_of_them_killed_are_each_published_exactly_once(
    opened: OpenProject, spark: Any, project: Path, asked: BackfillRequest, count: int, batches: int
) -> None:
    record, plan = backfills.start(opened, asked, "june")
    assert plan is not None and len(plan.slices) == count
    workers = [TwiceWorker(project, "june"), TwiceWorker(project, "june")]
    try:
        # Killed with a batch in its hands, when both have shown that they work.
        until(
            lambda: len(backfills.holders(opened, "june")) == 2 or backfills.record(opened, "june").complete,
            "both workers hold a batch",
        )
        until(lambda: workers[0].holds_one_of(backfills.holders(opened, "june")), "the first one holds a batch")
        workers[0].kill()
        until(lambda: workers[1].ended, "the second worker finishes alone")
        assert workers[1].process.returncode == 0, workers[1].log
    finally:
        for worker in workers:
            worker.kill()
    record = backfills.record(opened, "june")
    assert (record.state, record.done, record.total) == (BackfillState.FINISHED, count, count), workers[1].log
    table = project / "warehouse/shop/revenue"
    days = [f"twice/proof/revenue/{slice_.label}" for _, slice_ in plan.slices]
    assert sorted(tokens(table)) == sorted((day, 1) for day in days)
    assert len(commits(table)) == batches, "one for each batch; the first one made the table"
    assert rows(spark, table) == clean(spark, project, asked.last)
    upkeep.gc(opened)
    assert loose_files(table) == []
    assert not opened.ledger.open_attempts()
