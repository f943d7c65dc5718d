"""The write verbs as SQL, inside the transaction that publishes. Each says what it did, in rows."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from twice.core.closed import assert_never
from twice.core.slice import Owners
from twice.core.table.mark import version_of_value
from twice.core.write import AppendRows, Changes, ReplaceRows, ReplaceTable, UpsertRows, WriteVerb
from twice.errors import ResultRefused, TableChanged
from twice.targets.grain import as_utc
from twice.targets.postgres.server.names import column, listed
from twice.targets.postgres.server.server import Connection
from twice.targets.postgres.write.condition import condition, owner_column
from twice.targets.postgres.write.order import (
    as_stored,
    comparands,
    differ,
    equally_new,
    held_value,
    loses,
    older_elsewhere,
    staged_value,
)
from twice.targets.postgres.write.stage import Stage, lost

_CURSORS = ("smallint", "int", "bigint", "date", "timestamp")
"""Types of columns that a mark can count."""


@dataclass(frozen=True)
class Done:
    """`changes`: the rows of a keyed write. `changed`: the slices that were replaced with other rows, if that was
    compared."""

    changes: Changes | None = None
    changed: frozenset[str] | None = None


def carry_out(connection: Connection, stage: Stage, sealed: int, verb: WriteVerb, compare: bool) -> Done:
    """`compare`: replaced rows with the new ones. Dying here publishes nothing: the transaction is not committed."""
    match verb:
        case UpsertRows():
            return Done(changes=_upsert(connection, stage, sealed, verb))
        case ReplaceRows():
            changed = _delete(connection, stage, verb, compare)
            _insert_all(connection, stage, sealed)
            return Done(changed=changed)
        case AppendRows():
            _insert_all(connection, stage, sealed)
            return Done()
        case ReplaceTable():
            raise ValueError("a table is exchanged for its side table, not for a stage")
        case _:
            assert_never(verb)


def _insert_all(connection: Connection, stage: Stage, sealed: int) -> None:
    inserted = connection.execute(_insert(stage)).rowcount
    if inserted != sealed:
        raise lost(sealed, inserted)


def _delete(connection: Connection, stage: Stage, verb: ReplaceRows, compare: bool) -> frozenset[str] | None:
    """The slices' rows go. Which slices held other rows than are staged, if that is asked: by the rows that the DELETE
    itself has found, so that nobody can come in between."""
    owner = owner_column(stage, verb.slices)
    owned = condition(verb.slices, owner, "t")
    delete = sql.SQL("DELETE FROM {} t WHERE {}").format(stage.table.relation.sql, owned)
    if not compare:
        connection.execute(delete)
        return None
    pairs = [comparands(each) for each in stage.table.columns]
    gone, given = (sql.SQL(", ").join(values) for values in zip(*pairs, strict=True))
    names = [f"c{at}" for at in range(len(pairs))]
    asked = sql.SQL("NULL") if owner is None else column(names[stage.table.names.index(owner)])
    found = connection.execute(
        sql.SQL(
            "WITH gone ({0}) AS ({1} RETURNING {2}), given ({0}) AS (SELECT {3} FROM {4} s) SELECT DISTINCT {5} FROM"
            " ((TABLE gone EXCEPT ALL TABLE given) UNION ALL (TABLE given EXCEPT ALL TABLE gone)) differing"
        ).format(listed(names), delete, gone, given, stage.relation.sql, asked)
    ).fetchall()
    if owner is None:
        return frozenset(slice_.label for slice_ in verb.slices) if found else frozenset()
    owners = [Owners(verb.slices).of(as_utc(value)) for (value,) in found]
    return frozenset(slice_.label for slice_ in owners if slice_ is not None)


def _insert(stage: Stage, where: sql.Composable | None = None) -> sql.Composed:
    """In the order of the primary key: an index that is filled in order takes much less work than one at random."""
    table = stage.table
    values = sql.SQL(", ").join(staged_value(each) for each in table.columns)
    filtered = sql.SQL("") if where is None else sql.SQL(" WHERE {}").format(where)
    # A generated column may be in the key, and is not among those that are written.
    key = [staged_value(table.spelled(name)) for name in table.primary_key if name in table.names]
    ordered = sql.SQL(" ORDER BY {}").format(sql.SQL(", ").join(key)) if key else sql.SQL("")
    return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} s{}{}").format(
        table.relation.sql, listed(table.names), values, stage.relation.sql, filtered, ordered
    )


def _upsert(connection: Connection, stage: Stage, sealed: int, verb: UpsertRows) -> Changes:
    """First counted, then done: a statement that finds other numbers was overtaken by another writer."""
    found = _classified(connection, stage, verb)
    rows = found.inserted + found.updated + found.unchanged + found.older + found.differing
    if rows > sealed:
        raise ResultRefused(
            f"{stage.table.relation} holds several rows with one key ({', '.join(verb.key)})",
            fix="Leave one row of each, and give the table a unique index on the key.",
        )
    if rows < sealed:
        raise lost(sealed, rows)
    target, matched = stage.table.relation.sql, _matched(stage, verb)
    if found.updated:
        others = [each for each in stage.table.columns if each.name not in _key(stage, verb)]
        sets = sql.SQL(", ").join(sql.SQL("{} = {}").format(column(each.name), staged_value(each)) for each in others)
        update = sql.SQL("UPDATE {} t SET {} FROM {} s WHERE {} AND {} AND NOT {}").format(
            target, sets, stage.relation.sql, matched, _differs(stage), loses(stage, verb)
        )
        _agree(connection.execute(update).rowcount, found.updated)
    if found.deleted:
        _agree(connection.execute(_missing(stage, verb, "DELETE")).rowcount, found.deleted)
    if found.inserted:
        absent = sql.SQL("NOT EXISTS (SELECT FROM {} t WHERE {})").format(target, matched)
        everything = found.inserted == sealed and not found.deleted
        _agree(connection.execute(_insert(stage, None if everything else absent)).rowcount, found.inserted)
    return found


def _classified(connection: Connection, stage: Stage, verb: UpsertRows) -> Changes:
    first = column(stage.take_column, "s")
    there = sql.SQL("t.tableoid IS NOT NULL")
    differs, loser = _differs(stage), loses(stage, verb)
    counts: list[sql.Composable] = [sql.SQL("t.tableoid IS NULL")]
    if verb.insert_only:
        counts += [sql.SQL("false"), sql.SQL("{} AND NOT {}").format(there, differs), sql.SQL("false")]
        counts += [sql.SQL("{} AND {}").format(there, differs)]
    else:
        counts += [sql.SQL("{} AND {} AND NOT {}").format(there, differs, loser)]
        counts += [sql.SQL("{} AND NOT {}").format(there, differs)]
        counts += [sql.SQL("{} AND {} AND {}").format(there, differs, loser), sql.SQL("false")]
    tied = sql.SQL("false") if verb.insert_only else equally_new(stage, verb)
    counts += [sql.SQL("{} AND {} AND {}").format(there, differs, tied)]
    counts += [sql.SQL("{} AND {}").format(there, older_elsewhere(stage, verb))]
    asked: list[sql.Composable] = [sql.SQL("count({}) FILTER (WHERE {})").format(first, each) for each in counts]
    asked.append(_oldest(stage, verb, counts[1]))
    row = connection.execute(
        sql.SQL("SELECT {} FROM {} s LEFT JOIN {} t ON {}").format(
            sql.SQL(", ").join(asked), stage.relation.sql, stage.table.relation.sql, _matched(stage, verb)
        )
    ).fetchone()
    assert row is not None
    inserted, updated, unchanged, older, differing, ties, elsewhere, stamped = row
    deleted = 0
    if verb.delete_missing:
        gone = connection.execute(_missing(stage, verb, "SELECT count(*)")).fetchone()
        assert gone is not None
        deleted = gone[0]
    at = None if stamped is None else version_of_value(as_utc(stamped))
    return Changes(inserted, updated, unchanged, 0, deleted, older, differing, ties, elsewhere, at)


def _oldest(stage: Stage, verb: UpsertRows, updated: sql.Composable) -> sql.Composable:
    """The least stamp of the rows that are updated, where it is of a cursor's type."""
    held = None if verb.newest_by is None else stage.table.spelled(verb.newest_by)
    if held is None or held.array or held.type not in _CURSORS:
        return sql.SQL("NULL")
    return sql.SQL("min({}) FILTER (WHERE {})").format(as_stored(held), updated)


def _missing(stage: Stage, verb: UpsertRows, verb_text: str) -> sql.Composed:
    """The slice's rows whose key is not staged."""
    owned = condition(verb.slices, owner_column(stage, verb.slices), "t")
    return sql.SQL("{} FROM {} t WHERE {} AND NOT EXISTS (SELECT FROM {} s WHERE {})").format(
        sql.SQL(verb_text), stage.table.relation.sql, owned, stage.relation.sql, _matched(stage, verb)
    )


def _key(stage: Stage, verb: UpsertRows) -> list[str]:
    return [stage.table.spelled(name).name for name in verb.key]


def _matched(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The same key. Where NULL may be one, in a form that can still be hashed: IS NOT DISTINCT FROM cannot."""
    form = "{0} = {1}"
    if verb.null_keys == "match":
        form = "(({0} IS NULL) = ({1} IS NULL) AND coalesce(({0})::text, '') = coalesce(({1})::text, ''))"
    held = [stage.table.spelled(name) for name in verb.key]
    return sql.SQL(" AND ").join(sql.SQL(form).format(held_value(each), as_stored(each)) for each in held)


def _differs(stage: Stage) -> sql.Composable:
    return sql.SQL("({})").format(sql.SQL(" OR ").join(differ(each) for each in stage.table.columns))


def _agree(done: int, counted: int) -> None:
    if done != counted:
        raise TableChanged(
            f"{counted} rows were to be written and {done} were: others wrote the same keys at the same time",
            fix="Run the task again.",
        )
