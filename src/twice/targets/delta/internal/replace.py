"""Replace the rows of slices by the internal path: files staged in place, published by one commit."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from twice.core.ports import Landed, Lost, Staged
from twice.core.write import WritePlan
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.internal import in_place
from twice.targets.delta.log.condition import condition
from twice.targets.delta.log.table import Intent
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.write.fit import fitted
from twice.targets.delta.write.manifest import SliceType, count, file_of, verify
from twice.targets.delta.write.publish import Publishing, Stage, Work, locked_compare_and_swap


def stage(table_handle: TableHandle, into: Intent, frame: DataFrame, plan: WritePlan, attempt: str) -> Staged:
    """Dying here leaves data files named by the attempt, which no version of the table refers to."""
    table = into.table
    column = table.shape.partitioned_by
    handle = Stage(into, table_handle.path, publish)
    transaction, added = in_place.write(table_handle, handle, fitted(frame, table), plan, attempt)
    files = [file_of(file.json(), column) for file in added]
    counts = count(files, plan.slices, SliceType(table.slice_type))
    handle = replace(handle, files=added, transaction=transaction)
    paths = tuple(file.path for file in files)
    return Staged(table_handle.name, plan, attempt, sum(counts.values()), counts, paths, handle=handle)


def publish(publishing: Publishing) -> Landed | Lost:
    """Dying before Delta's commit publishes nothing, after it everything."""
    return locked_compare_and_swap(publishing, _work)


def _work(transaction: Transaction, staged: Staged) -> Work:
    """The files to take out, verified together with those to put in."""
    handle: Stage = staged.handle
    column, type_ = handle.table.shape.partitioned_by, handle.table.slice_type
    if staged.plan.read_at is not None:
        transaction.read_whole_table()
    removed = transaction.files_in(staged.plan.slices, column, type_)
    added = [file_of(file.json(), column) for file in handle.files]
    gone = [file_of(file.json(), column) for file in removed]
    verify(added, gone, staged.plan.slices, SliceType(type_), staged.rows_by_slice)
    return Work(handle.files, removed, condition(staged.plan.slices, column), staged=added)
