"""A table as the server's catalog describes it; making one that is missing, and refusing one that does not fit."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime
from secrets import token_hex

from psycopg import sql

from twice.core.ports import Column, Shape
from twice.core.schema_change import more_digits
from twice.core.time_scope import SliceColumn
from twice.core.write import Layout
from twice.errors import DeclarationError, EnvironmentProblem, TableChanged
from twice.targets.grain import check_cut, check_grain, check_partitioning, check_values, partition_grain
from twice.targets.postgres import state
from twice.targets.postgres.server.names import Relation, column, listed, ours
from twice.targets.postgres.server.server import Connection
from twice.targets.postgres.server.types import TableColumn, native_of, table_column
from twice.targets.schema import check_named, check_names, intended

# A domain of characters counts as characters: a cast to it would cut off what is too long.
_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(e.typname, d.typname, t.typname), a.atttypmod,
           e.oid IS NOT NULL, a.atthasdef OR a.attidentity <> ''
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typlen = -1
    LEFT JOIN LATERAL (
        WITH RECURSIVE under AS (
            SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
            UNION SELECT y.typbasetype FROM under u JOIN pg_type y ON y.oid = u.oid WHERE y.typtype = 'd'
        )
        SELECT y.typname FROM under u JOIN pg_type y ON y.oid = u.oid WHERE y.typname IN ('varchar', 'bpchar')
    ) d ON true
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""

_KEY = """
    SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY k (attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place
"""


@dataclass(frozen=True)
class Table:
    """`kind` is the catalog's letter: r a plain table, p a partitioned one, v a view. `entry` is what twice keeps."""

    relation: Relation
    oid: int
    kind: str
    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...]
    entry: state.Entry | None

    @property
    def shape(self) -> Shape:
        held_by = self.entry.slice_column if self.entry else None
        return Shape(tuple(each.column for each in self.columns), held_by)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.columns)

    def given(self, names: Set[str]) -> Table:
        """Without the columns that a result does not give and the server fills by itself (a serial or identity, a
        default such as now()): they are neither written nor compared, and are no drift."""
        return replace(self, columns=tuple(c for c in self.columns if not c.filled or c.name.lower() in names))

    def spelled(self, name: str) -> TableColumn:
        """The column of this name, as the table spells it (case does not count)."""
        for each in self.columns:
            if each.name.lower() == name.lower():
                return each
        raise DeclarationError(f"{self.relation} has no column {name}", fix="Name a column of the result.")


@dataclass(frozen=True)
class Intent:
    """A table as a publish will leave it: made, known to twice, with new columns, or as it is (`before`; None: there is
    none). Until twice has entered the table, its entry has the number 0."""

    table: Table
    before: Table | None
    layout: Layout

    @property
    def entry(self) -> state.Entry:
        assert self.table.entry is not None
        return self.table.entry


def find(connection: Connection, relation: Relation) -> Table | None:
    row = connection.execute(
        "SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        [relation.schema, relation.name],
    ).fetchone()
    if row is None:
        return None
    oid, kind = row
    rows = connection.execute(_COLUMNS, [oid]).fetchall()
    columns = tuple(replace(table_column(*each), filled=filled) for *each, filled in rows)
    key = tuple(name for (name,) in connection.execute(_KEY, [oid]).fetchall())
    return Table(relation, oid, kind, columns, key, state.entry(connection, relation, oid))


def intend(connection: Connection, relation: Relation, shape: Shape, layout: Layout, evolve: bool) -> Intent:
    """How the table must be for this result. Nothing is left behind: what must be tried is undone again."""
    before = find(connection, relation)
    if before is None:
        # Somebody's publish may be about to make it: to try the same would fail, and not for good.
        wait_for_makers(connection, relation)
        before = find(connection, relation)
    if before is None:
        _refuse_other_kind(connection, relation)
        check_names(shape)
        table = _tried(connection, relation, shape, layout)
    else:
        _refuse_unwritable(connection, before)
        before = before.given({column.name.lower() for column in shape.columns})
        columns = intended(shape, before.shape, evolve, more_digits)
        held = {each.column for each in before.columns}
        other = {each.name: each for each in _as_columns(connection, before, [c for c in columns if c not in held])}
        table = replace(before, columns=tuple(other.get(c.name) or before.spelled(c.name) for c in columns))
    if before is not None and before.entry is None:
        _check_values(connection, before, layout.slice_column)
    if table.entry is None:
        table = replace(table, entry=_entry(table, layout))
    _check(table, layout)
    return Intent(table, before, layout)


def establish(connection: Connection, into: Intent, token_names: Sequence[str]) -> int:
    """Make the table if it is missing, and enter it; the number of its entry. In the transaction that publishes, and
    undone with it. Of two that come first at once, the second waits, and finds it."""
    wait_for_makers(connection, into.table.relation)
    now = find(connection, into.table.relation)
    if now is None and into.before is None:
        _create(connection, into.table.relation, [(each.name, each.native) for each in into.table.columns], into.layout)
        now = find(connection, into.table.relation)
    if now is None:
        raise changed()
    entry = now.entry or _enter(connection, now, into.layout)
    if (entry.slice_column, entry.grain) != (into.entry.slice_column, into.entry.grain):
        raise changed()
    state.expect_tokens(connection, entry.id, token_names)
    return entry.id


def wait_for_makers(connection: Connection, relation: Relation) -> None:
    """Until the transaction ends, nobody else makes this table or enters it."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"twice {relation}"])


def changed() -> TableChanged:
    return TableChanged("the table was changed or recreated after the rows were staged", fix="Run the task again.")


def _tried(connection: Connection, relation: Relation, shape: Shape, layout: Layout) -> Table:
    """The table as it would be, made and undone: what the server refuses, it refuses before anything is computed."""
    with connection.transaction(force_rollback=True):
        _create(connection, relation, [(each.name, native_of(each)) for each in shape.columns], layout)
        found = find(connection, relation)
    assert found is not None
    return replace(found, entry=None)


def _as_columns(connection: Connection, table: Table, new: Sequence[Column]) -> tuple[TableColumn, ...]:
    """New columns as the catalog will describe them, without touching the table: readers hold it."""
    if not new:
        return ()
    row = connection.execute(
        "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s", [table.oid]
    ).fetchone()
    if row == (False,):
        raise EnvironmentProblem(
            f"{table.relation} belongs to another role, which alone can add columns to it or change them",
            now="The table is unchanged.",
            fix=f"Let it change {', '.join(each.name for each in new)}, or own the table.",
        )
    scratch = ours(f"columns_{token_hex(8)}")
    with connection.transaction(force_rollback=True):
        columns = [sql.SQL("{} {}").format(column(each.name), sql.SQL(native_of(each))) for each in new]
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(scratch.sql, sql.SQL(", ").join(columns)))
        found = find(connection, scratch)
    assert found is not None
    return found.columns


def _refuse_unwritable(connection: Connection, table: Table) -> None:
    kinds = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
    if table.kind in kinds:
        raise DeclarationError(
            f"{table.relation} is {kinds[table.kind]}, not a table that can be written",
            now="Nothing was written.",
            fix="Give the task another target.",
        )
    check_names(table.shape)
    if connection.execute("SELECT row_security_active(%s::oid)", [table.oid]).fetchone() == (True,):
        raise DeclarationError(
            f"{table.relation} has row-level security, and rows that this user does not see would stay in a slice",
            now="Nothing was written.",
            fix="Publish as its owner, or as a user with BYPASSRLS.",
        )


def _refuse_other_kind(connection: Connection, relation: Relation) -> None:
    """Indexes, sequences and types have names like tables."""
    row = connection.execute(
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        [relation.schema, relation.name],
    ).fetchone()
    if row is not None:
        raise DeclarationError(
            f"{relation} is the name of something that is not a table",
            now="Nothing was written.",
            fix="Give the task another target.",
        )


def _create(connection: Connection, relation: Relation, wanted: Sequence[tuple[str, str]], layout: Layout) -> None:
    names = [name for name, _ in wanted]
    columns = [sql.SQL("{} {}").format(column(name), sql.SQL(native)) for name, native in wanted]
    if layout.key:
        key = listed([_spelled(names, name) for name in layout.key])
        rule = "UNIQUE NULLS NOT DISTINCT ({})" if layout.null_keys else "PRIMARY KEY ({})"
        columns.append(sql.SQL(rule).format(key))
    _make_schema(connection, relation.schema)
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(relation.sql, sql.SQL(", ").join(columns)))
    if layout.slice_column is not None:
        # A slice is deleted by it.
        name = _spelled(names, layout.slice_column.name, layout.slice_column)
        connection.execute(sql.SQL("CREATE INDEX ON {} ({})").format(relation.sql, column(name)))


def _make_schema(connection: Connection, name: str) -> None:
    there, quoted = "SELECT to_regnamespace(%s)", sql.Identifier(name).as_string(connection)
    if connection.execute(there, [quoted]).fetchone() != (None,):
        return
    # Two tables that are the first of their schema: the second waits, and finds it.
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"twice schema {name}"])
    if connection.execute(there, [quoted]).fetchone() == (None,):
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))


def _entry(table: Table, layout: Layout) -> state.Entry:
    """What twice will keep of a table that it does not know yet."""
    slice_column = layout.slice_column
    if slice_column is None:
        return state.Entry(0, 0, None, None if layout.cut is None else str(layout.cut))
    return state.Entry(0, 0, _spelled(table.names, slice_column.name, slice_column), partition_grain(slice_column))


def _enter(connection: Connection, table: Table, layout: Layout) -> state.Entry:
    kept = _entry(table, layout)
    return state.enter(connection, table.relation, table.oid, kept.slice_column, kept.grain)


def _check(table: Table, layout: Layout) -> None:
    assert table.entry is not None
    wanted = layout.slice_column
    if not layout.any_partitions:
        held_by = table.entry.slice_column
        check_partitioning(str(table.relation), () if held_by is None else (held_by,), wanted)
    check_named(str(table.relation), table.shape, layout)
    check_cut(str(table.relation), table.entry.grain, layout.cut)
    if wanted is not None and not layout.any_partitions:
        check_grain(str(table.relation), table.entry.grain, wanted)


def _check_values(connection: Connection, table: Table, slice_column: SliceColumn | None) -> None:
    """Once, when twice first meets a table that others made: later rows were checked when they were staged."""
    if slice_column is None or (slice_column.type == "date" and slice_column.grain != "month"):
        return
    name = _spelled(table.names, slice_column.name, slice_column)
    values: list[tuple[date | datetime | None]] = connection.execute(
        sql.SQL("SELECT DISTINCT {} FROM {}").format(column(name), table.relation.sql)
    ).fetchall()
    check_values(str(table.relation), None, (value for (value,) in values), slice_column)


def _spelled(names: Sequence[str], name: str, wanted: SliceColumn | None = None) -> str:
    for each in names:
        if each.lower() == name.lower():
            return each
    type_ = f"{wanted.type} " if wanted else ""
    raise DeclarationError(f"the result has no {type_}column {name}", fix="Keep the scope's column in the result.")
