"""Names in PostgreSQL: where a table is, what its stage is called, and what a name may be. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from psycopg import sql

from twice.core.ports import Shape
from twice.core.task import TableName
from twice.errors import DeclarationError

SCHEMA = "twice"
"""Our own tables and the stages are here, in the database of the tables they belong to."""

LONGEST = 63
"""PostgreSQL cuts longer names off without a word, and two names may then be one."""

_PLAIN = re.compile(r"[A-Za-z0-9_]{1,40}", re.ASCII)


@dataclass(frozen=True)
class Relation:
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


def relation_of(table: TableName) -> Relation:
    """`shop.orders` is the table `orders` of the schema `shop`; the connection names the database."""
    parts = table.name.split(".")
    if len(parts) != 2:
        raise DeclarationError(
            f"{table} does not say schema and table", fix="Write postgres:schema.table, e.g. postgres:shop.orders."
        )
    for part in parts:
        check_length(part, f"the table {table}")
    return Relation(*parts)


def ours(name: str) -> Relation:
    return Relation(SCHEMA, name)


def stage_of(attempt: str) -> Relation:
    """One per attempt: two attempts never load each other's rows."""
    if _PLAIN.fullmatch(attempt):
        return ours(f"stage_{attempt}")
    return ours(f"stage_{hashlib.sha256(attempt.encode()).hexdigest()[:32]}")


def take_column(columns: list[str]) -> str:
    """The stage's own column, which no column of the table is named as."""
    name = "__twice_take"
    while name in {column.lower() for column in columns}:
        name += "_"
    return name


def check_columns(shape: Shape) -> None:
    for column in shape.columns:
        check_length(column.name, "the result's column")


def check_length(name: str, what: str) -> None:
    if len(name.encode()) > LONGEST:
        raise DeclarationError(
            f"{what} has a name of {len(name.encode())} bytes ({name[:20]}…), and PostgreSQL keeps {LONGEST}",
            now="The table is unchanged.",
            fix="Give it a shorter name.",
        )
    if not name or "\0" in name:
        raise DeclarationError(f"{what} has no name that PostgreSQL can keep", fix="Name it with letters.")


def listed(columns: list[str] | tuple[str, ...], prefix: str | None = None) -> sql.Composed:
    """Columns, each quoted, with commas between."""
    return sql.SQL(", ").join(column(name, prefix) for name in columns)


def column(name: str, prefix: str | None = None) -> sql.Identifier:
    return sql.Identifier(name) if prefix is None else sql.Identifier(prefix, name)
