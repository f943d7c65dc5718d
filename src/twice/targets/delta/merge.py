"""Upsert rows by Delta's public API alone: a hidden copy of one row of each key, then MERGE with a token.

The whole rule stands in MERGE's own conditions, so that it holds on the version MERGE reads. Where nothing changes
there is no MERGE, which would rewrite files all the same: the token is committed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from twice.core.ports import Landed, Lost, Staged
from twice.core.token import Note
from twice.core.write import Plan, UpsertRows
from twice.errors import RunError
from twice.targets.delta import copy, public
from twice.targets.delta.condition import owned, quoted, spelled, unused
from twice.targets.delta.fit import fitted
from twice.targets.delta.internal import Transaction
from twice.targets.delta.publish import Stage
from twice.targets.delta.site import Site
from twice.targets.delta.survivors import survivors
from twice.targets.delta.table import Table, why_untouchable
from twice.targets.delta.verdicts import Before, judged, newer, same
from twice.targets.keyed import null_key

_CONF = "spark.databricks.delta"


def stage(site: Site, table: Table, frame: DataFrame, plan: Plan, attempt: str) -> Staged:
    """Dying here leaves a hidden folder named by the attempt."""
    assert isinstance(plan.write, UpsertRows), plan.write
    rows, given = survivors(fitted(frame, table), plan.write, site.instruments)
    handle = Stage(table, site.path, publish, folder=copy.stage_folder(site.path, attempt))
    total = copy.write(site, handle, rows, plan)
    if plan.write.null_keys == "refuse":
        staged = copy.rows(site.session, handle)
        keys = [sf.col(quoted(spelled(staged.columns, key))).isNull() for key in plan.write.key]
        for null in keys:
            if staged.where(null).take(1):
                raise null_key(plan.write)
    counts = {plan.slices[0].label: total}
    return Staged(site.name, plan, attempt, total, counts, (str(handle.folder),), given()[0] - total, handle)


def publish(site: Site, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
    """Dying before Delta's commit publishes nothing, after it everything."""
    return public.swap(site, staged, expected, note, lambda: _ready(site, staged, expected))


def _ready(site: Site, staged: Staged, expected: Mapping[str, int]) -> public.Ready:
    """What there is to do on the newest version."""
    verb = staged.plan.write
    assert isinstance(verb, UpsertRows), verb
    transaction = site.log.begin()
    transaction.generations(expected)
    copy.check_whole(site, staged.handle, staged.rows)
    rows = copy.rows(site.session, staged.handle)
    inside = owned(staged.plan.slices, rows.columns)
    there = transaction.rows()
    with judged(Before(there, lambda _: there, inside), rows, staged.rows, verb, site.instruments) as found:
        changes = replace(found.changes, deduplicated=staged.deduplicated)
    version = transaction.table.version if transaction.table else None
    if found.written or found.gone:
        return public.Ready(lambda note: _merge(site, staged, rows, inside, note), changes, version)
    return public.Ready(lambda note: _token_alone(transaction, staged, note), changes, version)


def _token_alone(transaction: Transaction, staged: Staged, note: Note) -> None:
    handle: Stage = staged.handle
    why = why_untouchable(handle.table)
    if why is not None:
        raise RunError(f"nothing is to be changed, and no token can be written alone: {why}")
    transaction.read_whole_table()
    transaction.commit([], [], note.generations, None, note.to_json())


def _merge(site: Site, staged: Staged, rows: DataFrame, inside: str | None, note: Note) -> None:
    """The staged columns under names of their own: every other name is the table's."""
    verb = staged.plan.write
    assert isinstance(verb, UpsertRows), verb
    names = rows.columns
    *ours, first, second = unused(names, len(names) + 2)
    hashes = dict(zip((first, second), site.instruments.row_hashes(rows), strict=True))
    source = rows.withColumns(hashes).toDF(*ours, first, second)
    given = dict(zip(names, ours, strict=True))
    keys = [spelled(names, key) for key in verb.key]
    on = same([quoted(key) for key in keys], [given[key] for key in keys], verb.null_keys == "match")
    values: dict[str, SparkColumn] = {quoted(name): sf.col(own) for name, own in given.items()}
    writer = source.mergeInto(f"delta.{quoted(site.path)}", on)
    if not verb.insert_only:
        content = zip(site.instruments.row_hashes(rows), (first, second), strict=True)
        changed = reduce(lambda a, b: a | b, (hash_ != sf.col(name) for hash_, name in content))
        if verb.newest_by is not None:
            stamp = spelled(names, verb.newest_by)
            changed = changed & ~newer(sf.col(quoted(stamp)), sf.col(given[stamp]))
        writer = writer.whenMatched(changed).update(values)
    writer = writer.whenNotMatched().insert(values)
    if verb.delete_missing:
        writer = writer.whenNotMatchedBySource(sf.expr(inside or "true")).delete()
    with _identified(site.session, staged.plan.app_ids[0], note):
        writer.merge()


@contextmanager
def _identified(session: SparkSession, app: str, note: Note) -> Iterator[None]:
    """MERGE takes its token from the session alone. It is set around the one statement: left behind, it would mark
    the session's next write too."""
    conf = {
        f"{_CONF}.write.txnAppId": app,
        f"{_CONF}.write.txnVersion": str(note.generations[app]),
        f"{_CONF}.commitInfo.userMetadata": note.to_json(),
    }
    try:
        for name, value in conf.items():
            session.conf.set(name, value)
        yield
    finally:
        for name in conf:
            session.conf.unset(name)
