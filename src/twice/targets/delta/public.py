"""Replace the rows of one slice by Delta's public API alone: a hidden copy, then `replaceWhere` with a token.

Slower (the rows are written twice) and one slice per commit, but it works on every table Delta can write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from twice.core.failpoints import Point, hit
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.task import TableName
from twice.core.token import Note
from twice.core.write import Plan
from twice.errors import DeclarationError, RowsOutsideSlice, RunError, StageMismatch
from twice.targets.delta.condition import condition
from twice.targets.delta.fit import fitted
from twice.targets.delta.internal import Log, is_conflict, named
from twice.targets.delta.lock import FOLDER
from twice.targets.delta.publish import TRIES, Stage, check_unchanged, landed_or_not
from twice.targets.delta.replace import prefix
from twice.targets.delta.table import Table


def stage_folder(path: str, attempt: str) -> str:
    return f"{path.rstrip('/')}/{FOLDER}/stage/{attempt}"


def stage(
    session: SparkSession, name: TableName, table: Table, path: str, frame: DataFrame, plan: Plan, attempt: str
) -> Staged:
    """Dying here leaves a hidden folder named by the attempt."""
    if len(plan.slices) != 1:
        raise DeclarationError(
            f"{name.name} can take one slice per commit only, and this run has {len(plan.slices)}",
            now="The table is unchanged.",
            fix="Run the slices one by one.",
        )
    folder = stage_folder(path, attempt)
    fitted(frame, table).write.mode("overwrite").parquet(folder)
    hit(Point.IN_STAGE)
    handle = Stage(table, path, folder=folder)
    copy = rows(session, handle)
    inside = condition(plan.slices, table.shape.partitioned_by) or "true"
    total, owned = copy.selectExpr("count(*)", f"count_if({inside})").first() or (0, 0)
    if total != owned:
        raise RowsOutsideSlice(
            f"the result has {total - owned} rows outside {plan.slices[0].label}", fix="Filter the result to its slice."
        )
    return Staged(name, plan, attempt, total, {plan.slices[0].label: total}, (folder,), handle=handle)


def rows(session: SparkSession, stage: Stage) -> DataFrame:
    """The hidden copy. Its schema is said, not inferred: an empty copy has the table's columns too."""
    assert stage.folder is not None
    schema = StructType.fromJson(json.loads(stage.table.schema))
    return session.read.schema(schema).parquet(stage.folder)


def publish(session: SparkSession, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
    """The caller holds the table's lock. Dying before Delta's commit publishes nothing, after it everything."""
    handle: Stage = staged.handle
    failure: Exception | None = None
    for _ in range(TRIES):
        lost = _moved(session, staged, expected)
        if lost is not None:
            return lost
        check_unchanged(handle, Log(session, handle.path).table())
        hit(Point.BEFORE_COMMIT)
        try:
            with named(session, prefix(staged.attempt)):
                _write(session, staged, note)
            failure = None
        except Exception as error:  # noqa: BLE001 - whatever was raised, the table says what is true
            failure = error
        else:
            hit(Point.AFTER_COMMIT)
        outcome = landed_or_not(session, staged, expected, note, failure)
        if outcome is not None:
            return outcome
        if failure is not None and not is_conflict(failure):
            raise RunError(f"the commit failed: {str(failure).splitlines()[0]}", fix="Run the task again.") from failure
    raise RunError("other writers kept changing the same rows", fix="Run the task again.") from failure


def _moved(session: SparkSession, staged: Staged, expected: Mapping[str, int]) -> Lost | None:
    """Compare. Delta's own check of the pair (a version not above the recorded one is skipped without a word)
    registers the token on its transaction, so a swap between this look and the commit cannot pass."""
    handle: Stage = staged.handle
    version, found = Log(session, handle.path).generations(staged.plan.app_ids)
    if found == dict(expected) and handle.read_at in (None, version):
        return None
    if found == dict(expected):
        raise StageMismatch(
            "the table changed after this task read it, so its rows may be out of date", fix="Run the task again."
        )
    return Lost(Published(version, found))


def _write(session: SparkSession, staged: Staged, note: Note) -> None:
    handle: Stage = staged.handle
    app = staged.plan.app_ids[0]
    writer = (
        rows(session, handle)
        .write.format("delta")
        .mode("overwrite")
        .option("txnAppId", app)
        .option("txnVersion", note.generations[app])
        .option("userMetadata", note.to_json())
    )
    where = condition(staged.plan.slices, handle.table.shape.partitioned_by)
    # Never without a condition unless the slice is the whole table: an overwrite would take every other day away.
    if where is not None:
        writer = writer.option("replaceWhere", where)
    elif staged.plan.slices[0].bounds is not None:
        raise AssertionError("a slice with bounds in a table without a slice column")
    writer.save(handle.path)
