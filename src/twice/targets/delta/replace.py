"""Replace the rows of slices by the internal path: files staged in place, published by one commit."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from twice.core.failpoints import Point, hit
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.task import TableName
from twice.core.token import Note
from twice.core.write import Plan
from twice.errors import RowsOutsideSlice, RunError, StageMismatch
from twice.targets.delta.condition import condition
from twice.targets.delta.fit import fitted, gathered
from twice.targets.delta.internal import Log, Transaction, is_conflict, is_outside_slice, named
from twice.targets.delta.manifest import SliceType, count, file_of, verify
from twice.targets.delta.publish import TRIES, Stage, check_unchanged, landed_or_not
from twice.targets.delta.table import Table


def prefix(attempt: str) -> str:
    """How the names of an attempt's data files begin."""
    return f"twice-{attempt}-"


def stage(
    session: SparkSession, name: TableName, table: Table, path: str, frame: DataFrame, plan: Plan, attempt: str
) -> Staged:
    """Dying here leaves data files named by the attempt, which no version of the table refers to."""
    column = table.shape.partitioned_by
    transaction = Log(session, path).begin()
    check_unchanged(Stage(table, path), transaction.table)
    rows = gathered(fitted(frame, table), column, len(plan.slices))
    try:
        with named(session, prefix(attempt)):
            added = transaction.write(rows, condition(plan.slices, column))
    except Exception as error:
        outside = is_outside_slice(error)
        if outside is None:
            raise
        labels = ", ".join(slice_.label for slice_ in plan.slices)
        raise RowsOutsideSlice(
            f"the result has rows outside {labels}: {outside}", fix="Filter the result to its slice."
        ) from error
    hit(Point.IN_STAGE)
    files = [file_of(file.json(), column) for file in added]
    counts = count(files, plan.slices, SliceType(table.slice_type))
    handle = Stage(table, path, files=tuple(added), transaction=transaction)
    return Staged(name, plan, attempt, sum(counts.values()), counts, tuple(file.path for file in files), handle=handle)


def publish(session: SparkSession, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
    """The caller holds the table's lock. Dying before Delta's commit publishes nothing, after it everything."""
    handle: Stage = staged.handle
    for _ in range(TRIES):
        transaction = Log(session, handle.path).begin(handle.read_at)
        lost = _moved(transaction, expected)
        if lost is not None:
            return lost
        check_unchanged(handle, transaction.table)
        removed = _old_files(transaction, staged)
        hit(Point.BEFORE_COMMIT)
        try:
            told = condition(staged.plan.slices, handle.table.shape.partitioned_by)
            transaction.commit(handle.files, removed, note.generations, told, note.to_json())
            failure = None
        except Exception as error:  # noqa: BLE001 - whatever was raised, the table says what is true
            failure = error
        else:
            hit(Point.AFTER_COMMIT)
        outcome = landed_or_not(session, staged, expected, note, failure)
        if outcome is not None:
            return outcome
        _check_again(failure, handle)
    raise RunError(
        f"other writers changed the same rows {TRIES} times while this run tried to publish",
        fix="Run the task again when they are done.",
    ) from failure


def _moved(transaction: Transaction, expected: Mapping[str, int]) -> Lost | None:
    """Compare, on the very transaction that commits and for every token: Delta then refuses to swap if one moves
    between this look and the commit."""
    found = transaction.generations(expected)
    if found == dict(expected):
        return None
    table = transaction.table
    return Lost(Published(table.version if table else None, found))


def _old_files(transaction: Transaction, staged: Staged) -> list[object]:
    """The files to take out, verified together with those to put in."""
    handle: Stage = staged.handle
    column, type_ = handle.table.shape.partitioned_by, handle.table.slice_type
    if handle.read_at is not None:
        transaction.read_whole_table()
    removed = transaction.files_in(staged.plan.slices, column, type_)
    added = [file_of(file.json(), column) for file in handle.files]
    gone = [file_of(file.json(), column) for file in removed]
    verify(added, gone, staged.plan.slices, SliceType(type_), staged.rows_by_slice)
    return removed


def _check_again(failure: Exception | None, handle: Stage) -> None:
    """Nothing landed and no token moved. Only a conflict with other writers is worth another try."""
    if failure is None:
        raise StageMismatch("the commit was reported done but the table does not have it", fix="Run the task again.")
    if not is_conflict(failure):
        raise RunError(f"the commit failed: {str(failure).splitlines()[0]}", fix="Run the task again.") from failure
    if handle.read_at is not None:
        raise StageMismatch(
            "the table changed after this task read it, so its rows may be out of date", fix="Run the task again."
        ) from failure
