"""Upsert rows by Delta's public calls: a hidden copy of one row of each key, then MERGE with a token.

Rows are written and committed by these calls. The tokens are read and compared by Delta's own classes (delta/log).
The whole rule stands in MERGE's own conditions, so that it holds on the version MERGE reads. Where nothing changes
there is no MERGE, which would rewrite files all the same: the token is committed alone, by those classes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from twice.core.names.spark import quoted
from twice.core.ports import Landed, Lost, Staged
from twice.core.table.token import CommitNote
from twice.core.write import Changes, UpsertRows, WritePlan
from twice.errors import RunError
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.log.condition import owned, spelled, unused
from twice.targets.delta.log.table import Intent, Table, why_untouchable
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.public import copy
from twice.targets.delta.public import replace as public
from twice.targets.delta.write.fit import fitted
from twice.targets.delta.write.publish import Publishing, Stage, Work, check_present, must_change
from twice.targets.delta.write.row_diff import Before, compared, in_all_changes, less, newer, same
from twice.targets.delta.write.survivors import survivors
from twice.targets.keyed import null_key

_CONF = "spark.databricks.delta"


def stage(table_handle: TableHandle, into: Intent, frame: DataFrame, plan: WritePlan, attempt: str) -> Staged:
    """Dying here leaves a hidden folder named by the attempt."""
    assert isinstance(plan.write, UpsertRows), plan.write
    rows, given = survivors(fitted(frame, into.table), plan.write, table_handle.instruments)
    handle = Stage(into, table_handle.path, publish, folder=copy.stage_folder(table_handle.path, attempt))
    handle, total = copy.write(table_handle, handle, rows, plan)
    if plan.write.null_keys == "refuse":
        staged = copy.rows(table_handle.session, handle)
        keys = [sf.col(quoted(spelled(staged.columns, key))).isNull() for key in plan.write.key]
        for null in keys:
            if staged.where(null).take(1):
                raise null_key(plan.write)
    counts = {plan.slices[0].label: total}
    rows_given, ties = given()
    return Staged(
        table_handle.name, plan, attempt, total, counts, (str(handle.folder),), rows_given - total, ties, handle
    )


def publish(publishing: Publishing) -> Landed | Lost:
    """Dying before Delta's commit publishes nothing, after it everything."""
    table_handle, staged = publishing.table_handle, publishing.staged
    return public.public_compare_and_swap(publishing, lambda transaction: _work(table_handle, transaction, staged))


def _work(table_handle: TableHandle, transaction: Transaction, staged: Staged) -> Work:
    """What there is to do on the version the transaction began on. Outside the lock: it takes its time."""
    verb, handle = staged.plan.write, staged.handle
    assert isinstance(verb, UpsertRows), verb
    if transaction.table is None:
        changes = in_all_changes(Changes(inserted=staged.rows), staged)
        return Work(
            public=lambda note: public.create(table_handle, staged, note), changes=changes, at=transaction.version
        )
    check_present(table_handle, handle.copied)
    rows = copy.rows(table_handle.session, handle)
    inside = owned(staged.plan.slices, rows.columns)
    there = transaction.rows(handle.table)
    with compared(Before(there, lambda _: there, inside), rows, staged.rows, verb, table_handle.instruments) as found:
        changes = in_all_changes(found.changes, staged)
    call = partial(_token_alone, transaction, staged)
    if found.written or found.gone:
        call = partial(_merge, table_handle, staged, rows, inside)

    def public_call(note: CommitNote) -> None:
        """The commit carries no counts, since others may come in between; what they mean for its inputs it does."""
        unsure = verb.may_be_displaced and table_handle.log.generations(())[0] != transaction.version
        call(note.without_inputs() if changes.elsewhere or unsure else note)

    return Work(public=public_call, changes=changes, at=transaction.version)


def _token_alone(transaction: Transaction, staged: Staged, note: CommitNote) -> None:
    handle: Stage = staged.handle
    why = why_untouchable(handle.table)
    if why is not None:
        raise RunError(f"nothing is to be changed, and no token can be written alone: {why}")
    transaction.read_whole_table()
    if must_change(handle.into, transaction.table):
        transaction.become(handle.into.metadata(transaction.metadata))
    transaction.commit([], [], note.generations, None, note.to_json())


def _merge(table_handle: TableHandle, staged: Staged, rows: DataFrame, inside: str | None, note: CommitNote) -> None:
    """The staged columns under names of their own: every other name is the table's."""
    verb = staged.plan.write
    assert isinstance(verb, UpsertRows), verb
    names = rows.columns
    now = table_handle.log.table()
    new = [] if now is None or not must_change(staged.handle.into, now) else _new(names, now)
    *ours, first, second = unused(names, len(names) + 2)
    # A column that the table does not have yet is added by its own name.
    ours = [name if name in new else own for name, own in zip(names, ours, strict=True)]
    hashes = dict(zip((first, second), table_handle.instruments.row_hashes(rows), strict=True))
    source = rows.withColumns(hashes).toDF(*ours, first, second)
    given = dict(zip(names, ours, strict=True))
    # In a column that it does not have yet the table's row is NULL. A hash takes columns in the order of their names.
    nulls = {name: f"{name} " for name in new}
    held = table_handle.instruments.row_hashes(rows.withColumnsRenamed(nulls))
    source = source.withColumns({nulls[n]: sf.lit(None).cast(rows.schema[n].dataType) for n in new})
    keys = [spelled(names, key) for key in verb.key]
    on = same([quoted(key) for key in keys], [given[key] for key in keys], verb.null_keys == "match")
    values: dict[str, SparkColumn] = {quoted(name): sf.col(quoted(own)) for name, own in given.items()}
    writer = source.mergeInto(f"delta.{quoted(table_handle.path)}", on)
    if not verb.insert_only:
        content = zip(held, (first, second), strict=True)
        changed = reduce(lambda a, b: a | b, (hash_ != sf.col(name) for hash_, name in content))
        if verb.newest_by is not None:
            stamp = spelled(names, verb.newest_by)
            theirs, mine = sf.col(quoted(nulls.get(stamp, stamp))), sf.col(quoted(given[stamp]))
            changed = changed & ~newer(theirs, mine)
            if not verb.wins_ties:
                lesser = less((sf.col(first), sf.col(second)), held)
                if verb.delete_missing and inside is not None:
                    lesser = lesser & sf.expr(inside)  # a row outside the slice wins no tie
                changed = changed & ~(theirs.eqNullSafe(mine) & lesser)
        writer = writer.whenMatched(changed).update(values)
    writer = writer.whenNotMatched().insert(values)
    if verb.delete_missing:
        writer = writer.whenNotMatchedBySource(sf.expr(inside or "true")).delete()
    with _identified(table_handle.session, staged.plan.token_names[0], note):
        (writer.withSchemaEvolution() if new else writer).merge()


def _new(names: Sequence[str], now: Table) -> list[str]:
    there = {column.name.lower() for column in now.shape.columns}
    return [name for name in names if name.lower() not in there]


@contextmanager
def _identified(session: SparkSession, token_name: str, note: CommitNote) -> Iterator[None]:
    """MERGE takes its token from the session alone. It is set around the one statement: left behind, it would mark
    the session's next write too."""
    conf = {
        f"{_CONF}.write.txnAppId": token_name,
        f"{_CONF}.write.txnVersion": str(note.generations[token_name]),
        f"{_CONF}.commitInfo.userMetadata": note.to_json(),
    }
    try:
        for name, value in conf.items():
            session.conf.set(name, value)
        yield
    finally:
        for name in conf:
            session.conf.unset(name)
