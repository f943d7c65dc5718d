"""Append rows by the internal path: files staged in place, published by one commit with their tokens."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from twice.core.ports import Landed, Lost, Staged
from twice.core.write import AppendRows, WritePlan
from twice.errors import DeclarationError, StageMismatch
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.internal import in_place
from twice.targets.delta.log.table import Intent, why_untouchable
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.write.fit import fitted, gathered
from twice.targets.delta.write.manifest import DataFile, file_of, in_all
from twice.targets.delta.write.publish import Publishing, Stage, Work, begun, locked_compare_and_swap


def stage(table_handle: TableHandle, into: Intent, frame: DataFrame, plan: WritePlan, attempt: str) -> Staged:
    """Dying here leaves data files named by the attempt, which no version of the table refers to."""
    handle = Stage(into, table_handle.path, publish)
    rows = fitted(frame, into.table)
    if isinstance(plan.write, AppendRows) and plan.write.gathered:
        rows = gathered(rows, into.table.partition_columns)
    transaction, added = in_place.write(table_handle, handle, rows, plan, attempt)
    handle = Stage(into, table_handle.path, publish, added, transaction)
    files = [file_of(file.json(), None) for file in added]
    return _staged(table_handle, plan, attempt, files, handle)


def stage_nothing(table_handle: TableHandle, into: Intent, plan: WritePlan, attempt: str) -> Staged:
    """No rows, so that the commit moves its tokens alone. Nothing is written, so it works on every table whose
    commits are files of its own log."""
    why = why_untouchable(into.table)
    if why is not None:
        raise DeclarationError(f"{table_handle.name.name}: {why}", now="The table is unchanged.")
    handle = Stage(into, table_handle.path, publish)
    return _staged(table_handle, plan, attempt, [], replace(handle, transaction=begun(table_handle, handle)))


def publish(publishing: Publishing) -> Landed | Lost:
    """Dying before Delta's commit publishes nothing, after it everything."""
    return locked_compare_and_swap(publishing, _work)


def _work(transaction: Transaction, staged: Staged) -> Work:
    handle: Stage = staged.handle
    if staged.plan.read_at is not None:
        transaction.read_whole_table()
    files = [file_of(file.json(), None) for file in handle.files]
    if in_all(files) != staged.rows:
        raise StageMismatch("the staged files do not hold the rows that were staged", fix="Run the task again.")
    return Work(handle.files, staged=files)


def _staged(table_handle: TableHandle, plan: WritePlan, attempt: str, files: list[DataFile], handle: Stage) -> Staged:
    rows = in_all(files)
    counts = {slice_.label: 0 if at else rows for at, slice_ in enumerate(plan.slices)}
    return Staged(table_handle.name, plan, attempt, rows, counts, tuple(file.path for file in files), handle=handle)
