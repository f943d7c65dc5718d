"""A table as the server's catalog describes it; making one that is missing, and refusing one that does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from psycopg import sql

from twice.core.ports import Column, Shape
from twice.core.time_scope import SliceColumn
from twice.core.write import Layout
from twice.errors import DeclarationError
from twice.targets.grain import check_grain, check_partitioning, check_values, grain_mark
from twice.targets.postgres import state
from twice.targets.postgres.names import Relation, column, listed
from twice.targets.postgres.server import Connection
from twice.targets.postgres.types import TableColumn, native_of, table_column
from twice.targets.schema import check_fit, check_named, check_names, drift

_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(e.typname, t.typname), a.atttypmod,
           e.oid IS NOT NULL
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typlen = -1
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

    def spelled(self, name: str) -> TableColumn:
        """The column of this name, as the table spells it (case does not count)."""
        for each in self.columns:
            if each.name.lower() == name.lower():
                return each
        raise DeclarationError(f"{self.relation} has no column {name}", fix="Name a column of the result.")


def find(connection: Connection, relation: Relation) -> Table | None:
    row = connection.execute(
        "SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        [relation.schema, relation.name],
    ).fetchone()
    if row is None:
        return None
    oid, kind = row
    columns = tuple(table_column(*each) for each in connection.execute(_COLUMNS, [oid]).fetchall())
    key = tuple(name for (name,) in connection.execute(_KEY, [oid]).fetchall())
    return Table(relation, oid, kind, columns, key, state.entry(connection, relation, oid))


def prepare(connection: Connection, relation: Relation, shape: Shape, layout: Layout, evolve: bool) -> Table:
    """The table, made if it is missing, entered if twice did not know it. All or nothing: one transaction."""
    # Two that prepare one table at once: the second waits, and finds it.
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"twice {relation}"])
    found = find(connection, relation)
    if found is None:
        _create(connection, relation, shape, layout)
        found = find(connection, relation)
        assert found is not None
    if found.kind not in ("r", "p"):
        raise DeclarationError(f"{relation} is no table that can be written", fix="Give the task another target.")
    check_names(found.shape)
    if found.entry is None:
        _check_values(connection, found, layout.slice_column)
        _enter(connection, found, layout.slice_column)
    elif evolve and drift(shape, found.shape).only_new:
        _evolve(connection, found, shape)
        state.bump(connection, found.entry.id)
    found = find(connection, relation)
    assert found is not None and found.entry is not None
    _check(found, shape, layout)
    return found


def _create(connection: Connection, relation: Relation, shape: Shape, layout: Layout) -> None:
    columns = [sql.SQL("{} {}").format(column(each.name), sql.SQL(native_of(each))) for each in shape.columns]
    if layout.key:
        key = listed([_spelled(shape, name).name for name in layout.key])
        rule = "UNIQUE NULLS NOT DISTINCT ({})" if layout.null_keys else "PRIMARY KEY ({})"
        columns.append(sql.SQL(rule).format(key))
    if connection.execute("SELECT to_regnamespace(%s)", [_quoted(relation.schema)]).fetchone() == (None,):
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(relation.schema)))
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(relation.sql, sql.SQL(", ").join(columns)))
    if layout.slice_column is not None:
        # A slice is deleted by it.
        name = _spelled(shape, layout.slice_column.name, layout.slice_column).name
        connection.execute(sql.SQL("CREATE INDEX ON {} ({})").format(relation.sql, column(name)))


def _enter(connection: Connection, table: Table, slice_column: SliceColumn | None) -> None:
    held_by = grain = None
    if slice_column is not None:
        held_by = _spelled(table.shape, slice_column.name, slice_column).name
        grain = grain_mark(slice_column)
    state.enter(connection, table.relation, table.oid, held_by, grain)


def _evolve(connection: Connection, table: Table, shape: Shape) -> None:
    new = drift(shape, table.shape).new
    added = [sql.SQL("ADD COLUMN {} {}").format(column(each.name), sql.SQL(native_of(each))) for each in new]
    connection.execute(sql.SQL("ALTER TABLE {} {}").format(table.relation.sql, sql.SQL(", ").join(added)))


def _check(table: Table, shape: Shape, layout: Layout) -> None:
    assert table.entry is not None
    wanted = layout.slice_column
    if not layout.any_partitions:
        held_by = table.entry.slice_column
        check_partitioning(str(table.relation), () if held_by is None else (held_by,), wanted)
    check_fit(shape, table.shape)
    check_named(str(table.relation), table.shape, layout)
    if wanted is not None and not layout.any_partitions:
        check_grain(str(table.relation), table.entry.grain, wanted)


def _check_values(connection: Connection, table: Table, slice_column: SliceColumn | None) -> None:
    """Once, when twice first meets a table that others made: later rows were checked when they were staged."""
    if slice_column is None or (slice_column.type == "date" and slice_column.grain != "month"):
        return
    name = _spelled(table.shape, slice_column.name, slice_column).name
    values: list[tuple[date | datetime | None]] = connection.execute(
        sql.SQL("SELECT DISTINCT {} FROM {}").format(column(name), table.relation.sql)
    ).fetchall()
    check_values(str(table.relation), None, (value for (value,) in values), slice_column)


def _spelled(shape: Shape, name: str, wanted: SliceColumn | None = None) -> Column:
    for each in shape.columns:
        if each.name.lower() == name.lower():
            return each
    type_ = f"{wanted.type} " if wanted else ""
    raise DeclarationError(f"the result has no {type_}column {name}", fix="Keep the scope's column in the result.")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
