"""Replace the rows of one slice by Delta's public calls: a hidden copy, then `replaceWhere` with a token.

Rows are written and committed by these calls. The tokens are read and compared by Delta's own classes (delta/log).
Slower (the rows are written twice) and one slice per commit, but it works on every table Delta can write.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, DataFrameWriter

from twice.core.ports import Landed, Lost, Staged
from twice.core.table.token import CommitNote
from twice.core.write import WritePlan
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.internal.in_place import prefix
from twice.targets.delta.log.condition import condition
from twice.targets.delta.log.jvm import named
from twice.targets.delta.log.table import Intent, why_untouchable
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.public import copy
from twice.targets.delta.write.fit import fitted
from twice.targets.delta.write.publish import Publishing, Stage, Work, compare_and_swap, must_change


def stage(table_handle: TableHandle, into: Intent, frame: DataFrame, plan: WritePlan, attempt: str) -> Staged:
    """Dying here leaves a hidden folder named by the attempt."""
    handle = Stage(into, table_handle.path, publish, folder=copy.stage_folder(table_handle.path, attempt))
    handle, total = copy.write(table_handle, handle, fitted(frame, into.table), plan)
    counts = {plan.slices[0].label: total}
    return Staged(table_handle.name, plan, attempt, total, counts, (str(handle.folder),), handle=handle)


def publish(publishing: Publishing) -> Landed | Lost:
    """Dying before Delta's commit publishes nothing, after it everything."""

    def work(transaction: Transaction) -> Work:
        call = create if transaction.table is None else _replace_rows
        return Work(public=partial(call, publishing.table_handle, publishing.staged), at=transaction.version)

    return public_compare_and_swap(publishing, work)


def public_compare_and_swap(publishing: Publishing, work: Callable[[Transaction], Work]) -> Landed | Lost:
    """Compare-and-swap with the lock around Delta's own call, which writes and commits together (decision 0015).
    Dying before Delta's commit publishes nothing, after it everything."""
    table_handle, staged = publishing.table_handle, publishing.staged
    handle: Stage = staged.handle

    def ready(transaction: Transaction) -> Work:
        todo = work(transaction)
        return replace(todo, staged=handle.copied, public=lambda note: _called(table_handle, staged, todo, note))

    end = compare_and_swap(publishing, ready, table_handle.locked)
    if isinstance(end, Landed):
        with suppress(Exception):  # the next run looks for what is left of it
            copy.remove(table_handle.session, table_handle.path, staged.attempt)
    return end


def create(table_handle: TableHandle, staged: Staged, note: CommitNote) -> None:
    """Make the table with its first rows and the token, in one commit. Refused if it is there."""
    handle: Stage = staged.handle
    # Not CREATE TABLE: a creator that was killed may have left the folder, and it then says that the table exists.
    writer = _writer(table_handle, staged, note).mode("error").option("delta.columnMapping.mode", "none")
    writer.partitionBy(*handle.table.partition_columns).save(handle.path)


def _replace_rows(table_handle: TableHandle, staged: Staged, note: CommitNote) -> None:
    """The slice's rows for the staged ones, with the columns that are new, in one commit."""
    handle: Stage = staged.handle
    writer = _writer(table_handle, staged, note)
    if must_change(handle.into, table_handle.log.table()):
        writer = writer.option("mergeSchema", "true")
    where = condition(staged.plan.slices, _slice_column(handle, staged))
    # Never without a condition unless the slice is the whole table: an overwrite would take every other day away.
    if where is not None:
        writer = writer.option("replaceWhere", where)
    elif staged.plan.slices[0].bounds is not None:
        raise AssertionError("a slice with bounds in a table without a slice column")
    writer.mode("overwrite").save(handle.path)


def _slice_column(handle: Stage, staged: Staged) -> str | None:
    """As the table spells it; None where the slice is the whole table."""
    bounds = staged.plan.slices[0].bounds
    wanted = None if bounds is None else bounds.column.lower()
    return next((each.name for each in handle.table.shape.columns if each.name.lower() == wanted), None)


def _writer(table_handle: TableHandle, staged: Staged, note: CommitNote) -> DataFrameWriter:
    token_name = staged.plan.token_names[0]
    rows = copy.rows(table_handle.session, staged.handle).write.format("delta").option("userMetadata", note.to_json())
    return rows.option("txnAppId", token_name).option("txnVersion", note.generations[token_name])


def _called(table_handle: TableHandle, staged: Staged, todo: Work, note: CommitNote) -> None:
    """Delta's calls take one token: those beside it have a commit of their own. Before the rows, so that nobody finds
    the rows without them; where there is no table yet, after them: there is nothing yet that they are about. Dying
    between the two leaves tokens that promise less than there is, or a first publish without them."""
    assert todo.public is not None
    there = table_handle.log.table() is not None
    if there:
        _move_beside(table_handle, note)
    with named(table_handle.session, prefix(staged.attempt)):
        todo.public(note)
    if not there:
        _move_beside(table_handle, note)


def _move_beside(table_handle: TableHandle, note: CommitNote) -> None:
    """A catalog's table keeps none: no token can be written there without rows."""
    transaction = table_handle.log.begin() if note.beside else None
    if transaction is None or transaction.table is None or why_untouchable(transaction.table) is not None:
        return
    alone = CommitNote(note.attempt, note.kind, note.beside)
    transaction.commit([], [], alone.tokens, None, alone.to_json())
