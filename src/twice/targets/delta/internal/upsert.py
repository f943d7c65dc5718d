"""Upsert rows by the internal path: one row of each key staged in place, then one commit that takes the files with
changed rows out and puts them in again without those rows, together with the new ones.

Not Delta's MERGE: it cannot be audited before it commits, rewrites the files of rows that do not change, and records
no token where nothing changed (decision 0005).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from twice.core.ports import Landed, Lost, Staged
from twice.core.write import UpsertRows, WritePlan
from twice.errors import StageMismatch
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.internal import in_place
from twice.targets.delta.log.condition import owned
from twice.targets.delta.log.jvm import named
from twice.targets.delta.log.key_range import KeyRange, key_range_of
from twice.targets.delta.log.table import Intent
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.write.fit import fitted, gathered
from twice.targets.delta.write.manifest import SliceType, at_paths, count, file_of, in_all
from twice.targets.delta.write.publish import Publishing, Stage, Work, begun, check_present, compare_and_swap
from twice.targets.delta.write.row_diff import Before, RowDiff, compared, in_all_changes
from twice.targets.delta.write.survivors import survivors


def stage(table_handle: TableHandle, into: Intent, frame: DataFrame, plan: WritePlan, attempt: str) -> Staged:
    """Dying here leaves data files named by the attempt, which no version of the table refers to."""
    verb, table = _verb(plan), into.table
    rows, given = survivors(fitted(frame, table), verb, table_handle.instruments)
    handle = Stage(into, table_handle.path, publish)
    transaction, added = in_place.write(table_handle, handle, gathered(rows, table.partition_columns), plan, attempt)
    column = table.shape.partitioned_by
    files = [file_of(file.json(), column) for file in added]
    total = in_all(files)
    bounds = plan.slices[0].bounds
    counts = {slice_.label: 0 if at else total for at, slice_ in enumerate(plan.slices)}
    if bounds is not None and column is not None and bounds.column.lower() == column.lower():
        counts = count(files, plan.slices, SliceType(table.slice_type))
    handle = replace(handle, files=added, transaction=transaction)
    paths = tuple(file.path for file in files)
    rows_given, ties = given()
    return Staged(table_handle.name, plan, attempt, total, counts, paths, rows_given - total, ties, handle)


def publish(publishing: Publishing) -> Landed | Lost:
    """The heavy work comes before the lock: files that belong to one version are written, and committed only if
    nobody changed a row since. Dying before Delta's commit publishes nothing, after it everything."""
    table_handle, staged = publishing.table_handle, publishing.staged
    return compare_and_swap(
        publishing, lambda transaction: _work(table_handle, transaction, staged), table_handle.locked
    )


def _work(table_handle: TableHandle, transaction: Transaction, staged: Staged) -> Work:
    """Dying here leaves files named by the attempt that no version refers to."""
    handle: Stage = staged.handle
    transaction.read_whole_table()
    files = [file_of(file.json(), None) for file in handle.files]
    check_present(table_handle, files)
    rows = handle.transaction.frame(handle.files)
    inside = owned(staged.plan.slices, rows.columns)
    before = Before(
        transaction.rows(handle.table, _key_range(staged)),
        lambda paths: transaction.frame(at_paths(transaction.files_at(paths), paths)),
        inside,
    )
    with compared(before, rows, staged.rows, _verb(staged.plan), table_handle.instruments) as diff:
        changes = in_all_changes(diff.changes, staged)
        removed = at_paths(transaction.files_at(diff.files), diff.files)
        as_staged = handle.files if diff.written == staged.rows else ()
        staying = diff.staying(transaction.frame(removed)) if removed else None
        new = diff.to_write(rows) if diff.written and not as_staged else None
        made = _written(table_handle, transaction, staged, _rewritten(handle, staying, new))
        added = [*as_staged, *made]
        _verify(transaction, diff, added, removed)
    return Work(
        added,
        removed,
        changes=changes,
        staged=files if as_staged else (),
        made=[file_of(file.json(), None) for file in made],
        spare=() if as_staged else staged.files,
    )


def _rewritten(handle: Stage, staying: DataFrame | None, new: DataFrame | None) -> DataFrame | None:
    """What is written for this commit alone: the rows of the removed files that stay, and the new rows unless they are
    committed as they were staged."""
    if new is not None:
        new = gathered(new, handle.table.partition_columns)
    return staying if new is None else new if staying is None else staying.unionByName(new)


def _written(table_handle: TableHandle, transaction: Transaction, staged: Staged, rows: DataFrame | None) -> list[Any]:
    """Files of the very version the transaction began on; not by it, since it commits."""
    if rows is None:
        return []
    at = transaction.version if transaction.version >= 0 else None
    with named(table_handle.session, in_place.prefix(staged.attempt)):
        return begun(table_handle, staged.handle, at).write(rows, {})


def _verify(transaction: Transaction, diff: RowDiff, added: list[Any], removed: list[Any]) -> None:
    """What goes in and what comes out, in rows, must be what was compared: a row lost on the way stops the commit."""
    there = [file_of(file.json(), None) for file in removed]
    known = all(file.rows is not None for file in there)
    before = in_all(there) if known else transaction.frame(removed).count()
    after = in_all([file_of(file.json(), None) for file in added])
    if after - before != diff.written - diff.gone:
        raise StageMismatch(
            f"the commit would put {after} rows in and take {before} out, where {diff.written} rows are to be "
            f"written and {diff.gone} to go",
            fix="Run the task again. If it happens twice, please report it.",
        )


def _key_range(staged: Staged) -> KeyRange | None:
    """How far the staged keys reach, where that shows which rows they can match."""
    verb, handle = _verb(staged.plan), staged.handle
    if verb.delete_missing or verb.null_keys == "match" or not handle.files:
        return None
    types = {column.name.lower(): column for column in handle.table.shape.columns}
    column = types[verb.key[0].lower()]
    return key_range_of([json.loads(file.json())["add"] for file in handle.files], column.name, column.type)


def _verb(plan: WritePlan) -> UpsertRows:
    assert isinstance(plan.write, UpsertRows), plan.write
    return plan.write
