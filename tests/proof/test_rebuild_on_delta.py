"""A rebuild on real Delta: one commit on the same table, its history readable, and a crash anywhere ended by the next
call."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample

from twice import Outcome
from twice.config import load
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.results.run import RunRequest
from twice.errors import SchemaDrift, SliceBusy
from twice.project import rebuild as rebuilding
from twice.project import run as runs
from twice.project import upkeep
from twice.runtime.rebuild.plan import RebuildRequest
from twice.wiring.open_project import OpenProject

from .conftest import until
from .project_files import PIPELINE
from .tables import loose_files, rows

DAYS = ("2026-06-09", "2026-06-10")
OTHER = PIPELINE.replace(
    '"region").agg(F.sum("amount").alias("revenue"))',
    '"region").agg(F.sum("amount").cast("double").alias("revenue")).withColumnRenamed("region", "area")',
).replace('"order_date", "region"),', '"order_date", "area"),')


@pytest.fixture
def changed(opened: OpenProject, project: Path) -> OpenProject:
    """Two days are published, and the code has other columns since: one renamed, one retyped."""
    for day in DAYS:
        runs.run(opened, "revenue", runs.slices(opened, "revenue", day), RunRequest())
    (project / "pipelines" / "revenue.py").write_text(OTHER)
    return OpenProject(load(project))


def as_before(spark: Any, project: Path) -> list[tuple[Any, ...]]:
    """The rows of the first code with the columns of the second."""
    found = spark.read.format("delta").option("versionAsOf", 1).load(str(project / "warehouse/shop/revenue"))
    return sorted(tuple(row) for row in found.selectExpr("region", "order_date", "CAST(revenue AS DOUBLE)").collect())


def rebuild(opened: OpenProject, request: RebuildRequest = RebuildRequest()) -> Any:  # noqa: B008 - it is frozen
    """Who died in this very process is not seen to be gone: its lease of two seconds is waited for."""
    ended: list[Any] = []

    def tried() -> bool:
        with suppress(SliceBusy):
            ended.append(rebuilding.rebuild(opened, "revenue", request, lambda _: None))
        return bool(ended)

    until(tried, "the lease of the one that died to be over")
    return ended[0]


def check_rebuilt(opened: OpenProject, spark: Any, project: Path) -> None:
    table = project / "warehouse/shop/revenue"
    assert rows(spark, table) == as_before(spark, project)
    assert spark.read.format("delta").load(str(table)).columns == ["order_date", "area", "revenue"]
    assert not (project / "warehouse/shop/revenue__rebuild").exists()
    assert loose_files(table) == []
    (result,) = runs.run(opened, "revenue", runs.slices(opened, "revenue", DAYS[0]), RunRequest())
    assert result.outcome is Outcome.ALREADY
    assert not opened.ledger.open_attempts()


def test_a_rebuild_exchanges_the_table_in_one_commit_and_its_history_stays(
    changed: OpenProject, spark: Any, project: Path
) -> None:
    with pytest.raises(SchemaDrift, match=r"If region was renamed to area.*twice rebuild revenue"):
        runs.run(changed, "revenue", runs.slices(changed, "revenue", DAYS[0]), RunRequest())
    table = str(project / "warehouse/shop/revenue")
    old = spark.read.format("delta").load(table)
    before = sorted(tuple(row) for row in old.collect())
    result = rebuild(changed)
    assert (result.computed, result.version) == (2, 2)
    check_rebuilt(changed, spark, project)
    # A reader that had opened the old version reads on, and a version before it is still there.
    assert sorted(tuple(row) for row in old.collect()) == before
    restated = runs.run(changed, "revenue", runs.slices(changed, "revenue", DAYS[1]), RunRequest("restate"))
    assert [each.outcome for each in restated] == [Outcome.IDENTICAL]


POINTS = (
    Point.IN_STAGE,
    Point.AFTER_STAGE,
    Point.PUBLISHING,
    Point.BEFORE_COMMIT,
    Point.AFTER_COMMIT,
    Point.AFTER_FINISH,
)


@pytest.mark.parametrize("point", sample(POINTS, of=(Point.AFTER_COMMIT,)))
@pytest.mark.parametrize("passes", sample((0, 1), of=(1,)))
def test_a_rebuild_that_dies_is_ended_by_the_next_call(
    changed: OpenProject, spark: Any, project: Path, point: Point, passes: int
) -> None:
    """While both days are filled aside, in one batch, and while the table is exchanged."""
    left = [passes]

    def die(passed: Any) -> None:
        if passed is point:
            if not left[0]:
                raise Crash(point.value)
            left[0] -= 1

    with armed(die), pytest.raises(Crash):
        rebuild(changed)
    again = OpenProject(load(project))
    rebuild(again)
    check_rebuilt(again, spark, project)


APPENDED = """
from pyspark.sql import functions as F
from twice import Since, append_once, read, task

@task("shop.revenue", scope=Since("order_id", initial=0), inputs={"orders": read("shop.orders", by="order_id")},
      write=append_once())
def revenue(orders):
    return orders.select("order_id", "region")
"""
WIDER = APPENDED.replace(
    '.select("order_id", "region")', '.select("order_id", F.col("region").alias("area"), F.lit("x").alias("note"))'
)


@pytest.mark.parametrize("point", sample([None, Point.BEFORE_COMMIT, Point.AFTER_COMMIT], of=[Point.AFTER_COMMIT]))
def test_a_table_of_a_mark_is_copied_in_one_commit_and_goes_on_from_its_mark(
    opened: OpenProject, spark: Any, project: Path, point: Point | None
) -> None:
    """The first time that it comes by a point the rows are copied aside, the second time the table is exchanged."""
    pipeline, table = project / "pipelines" / "revenue.py", str(project / "warehouse/shop/revenue")
    pipeline.write_text(APPENDED)
    first = OpenProject(load(project))
    runs.run(first, "revenue", runs.slices(first, "revenue", None), RunRequest())
    old = sorted(tuple(row) for row in spark.read.format("delta").load(table).collect())
    mark = upkeep.mark(first, "revenue").at
    pipeline.write_text(WIDER)
    changed, left = OpenProject(load(project)), [1]

    def die(passed: Any) -> None:
        if passed is point:
            if not left[0]:
                raise Crash("here")
            left[0] -= 1

    request = RebuildRequest(renamed={"region": "area"})
    if point is not None:
        with armed(die), pytest.raises(Crash):
            rebuilding.rebuild(changed, "revenue", request, lambda _: None)
        changed = OpenProject(load(project))
    done = rebuild(changed, request)
    assert done.before is (point is Point.AFTER_COMMIT)
    found = spark.read.format("delta").load(table)
    assert found.columns == ["order_id", "area", "note"]
    assert sorted(tuple(row) for row in found.collect()) == [(*row, None) for row in old]
    assert done.version == 1  # one commit after the first one, of the same table
    assert upkeep.mark(changed, "revenue").at == mark
    assert not (project / "warehouse/shop/revenue__rebuild").exists()
    assert loose_files(Path(table)) == []
    (again,) = runs.run(changed, "revenue", runs.slices(changed, "revenue", None), RunRequest())
    assert again.outcome is Outcome.NOTHING_NEW
