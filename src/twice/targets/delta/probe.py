"""One day, staged, published and read back on this Spark and this Delta: what `twice doctor` tries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from twice.core.ports import Column, Landed, Lost, Shape
from twice.core.scope import Daily
from twice.core.table.token import CommitNote, token_name
from twice.core.task import TableName
from twice.core.write import Layout, ReplaceRows, WritePlan
from twice.targets.active_session import as_active_session
from twice.targets.delta.log.jvm import is_conflict
from twice.targets.delta.log.log import Log
from twice.targets.delta.target import DeltaTarget
from twice.targets.instruments import Instruments


@dataclass(frozen=True)
class Probed:
    """`fix` is empty where nothing is wrong."""

    detail: str
    fix: str = ""


def publish_a_day(session: SparkSession, folder: Path, instruments: Instruments, internal: bool = True) -> Probed:
    """Whether the internal path of the Delta target works here; without it, every run writes its rows twice."""
    target = DeltaTarget(session, lambda table: str(folder / table.name), instruments, internal=internal)
    table, scope = TableName("probe"), Daily("day", start="2026-01-01")
    slice_ = scope.slice_of("2026-01-01")
    into = target.prepare(table, Shape((Column("id", "bigint"), Column("day", "date"))), Layout(scope.held_in), False)
    plan = WritePlan(ReplaceRows((slice_,)), (slice_,), (token_name("doctor", "probe", slice_.label),))
    rows = session.range(3).selectExpr("id", "DATE'2026-01-01' AS day")
    staged = target.stage(table, rows, plan, "probe", into=into)
    late = target.stage(table, rows, plan, "late", into=into)
    name = plan.token_names[0]
    end = target.commit(staged, {name: 0}, CommitNote("probe", "run", {name: 1}))
    loser = target.commit(late, {name: 0}, CommitNote("late", "run", {name: 1}))
    count = target.read(table).count()
    slow = target.one_slice_only(table)
    if not isinstance(end, Landed) or count != 3:
        return Probed(f"{end}, {count} rows of 3", "Report this with the versions above.")
    refused = not internal or _refuses_a_moved_token(session, str(folder / table.name), name)
    if not isinstance(loser, Lost) or not refused:
        fix = "Set internal = false in twice.toml." if internal else "Report this with the versions above."
        return Probed("Delta accepted a conflicting commit", fix)
    if slow is not None:
        return Probed(f"works, rows by Delta's public calls ({slow}): they are written twice")
    return Probed(
        "stage, commit with token and read back work, without a second copy; a conflicting commit is rejected"
    )


def _refuses_a_moved_token(session: SparkSession, path: str, name: str) -> bool:
    """Two transactions that saw one token: Delta itself must refuse the second. Nothing else would show if one of its
    private calls came to mean something else."""
    with as_active_session(session):
        first, second = Log(session, path).begin(), Log(session, path).begin()
        for transaction in (first, second):
            transaction.generations([name])
        first.commit([], [], {name: 2}, None, CommitNote("first", "run", {name: 2}).to_json())
        try:
            second.commit([], [], {name: 2}, None, CommitNote("second", "run", {name: 2}).to_json())
        except Exception as error:  # noqa: BLE001 - checked below
            return is_conflict(error)
    return False
