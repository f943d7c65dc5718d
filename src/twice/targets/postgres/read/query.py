"""What is read: columns of one relation, with conditions, cut into parts that together are everything once. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from twice.targets.postgres.server.names import Relation, column
from twice.targets.postgres.server.types import TableColumn, native_of


@dataclass(frozen=True)
class Query:
    """`snapshot`: the exported snapshot it is read in; None reads what is there when it is asked. `file`: where the
    server keeps the table's rows; None for what has none of its own (a view, a partitioned or a foreign table)."""

    relation: Relation
    columns: tuple[TableColumn, ...]
    conditions: tuple[str, ...] = ()
    snapshot: str | None = None
    file: int | None = None

    def text(self, *more: str) -> str:
        conditions = (*self.conditions, *more)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        selected = sql.SQL(", ").join(_read(held) for held in self.columns)
        query = sql.SQL("SELECT {} FROM {}").format(selected, self.relation.sql)
        return query.as_string(None) + where


def _read(held: TableColumn) -> sql.Composable:
    """In the type that travels: what Spark knows as a string is read as text."""
    transport = native_of(held.column)
    if held.type in ("string", "array<string>") and held.native != transport:
        return sql.SQL("{}::{}").format(column(held.name), sql.SQL(transport))
    return column(held.name)
