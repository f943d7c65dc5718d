"""doctor's own run: one day staged, published and read back through the Delta target, on this Spark and this Delta."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from twice.core.ports import Column, Landed, Shape
from twice.core.scope import Daily
from twice.core.task import TableName
from twice.core.token import Note, app_id
from twice.core.write import Layout, Plan, ReplaceRows
from twice.engine.doctor import Check
from twice.wiring.delta import delta_target


def publish_a_day(session: SparkSession, folder: Path) -> Check:
    """Whether the internal path of the Delta target works here; without it, every run writes its rows twice."""
    target = delta_target(session, lambda table: str(folder / table.name))
    table, scope = TableName("probe"), Daily("day", start="2026-01-01")
    slice_ = scope.slice_of("2026-01-01")
    target.prepare(table, Shape((Column("id", "bigint"), Column("day", "date"))), Layout(scope.held_in), False)
    plan = Plan(ReplaceRows((slice_,)), (slice_,), (app_id("doctor", "probe", slice_.label),))
    rows = session.range(3).selectExpr("id", "DATE'2026-01-01' AS day")
    staged = target.stage(table, rows, plan, "probe")
    end = target.commit(staged, {plan.app_ids[0]: 0}, Note("probe", "run", {plan.app_ids[0]: 1}))
    count = target.read(table).count()
    slow = target.one_slice_only(table)
    if not isinstance(end, Landed) or count != 3:
        return Check("publish", False, f"{end}, {count} rows of 3", "Report this with the versions above.")
    if slow is not None:
        return Check("publish", True, f"works, by Delta's public API alone ({slow}): rows are written twice")
    return Check("publish", True, "stage, commit with token and read back work, without a second copy")
