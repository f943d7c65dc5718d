"""The rows of some slices as a condition of SQL. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from psycopg import sql

from twice.core.slice import Slice
from twice.targets.postgres.server.names import column
from twice.targets.postgres.write.stage import Stage
from twice.targets.ranges import ranges


def condition(slices: Sequence[Slice], name: str | None, prefix: str | None = None) -> sql.Composable:
    """Which rows the slices own. NULL is never inside. A table without a slice column is owned as a whole."""
    if name is None:
        return sql.SQL("true")
    at = column(name, prefix)
    parts = [
        sql.SQL("({} >= {} AND {} < {})").format(at, sql.Literal(low), at, sql.Literal(high))
        for low, high in ranges(slices)
    ]
    return sql.SQL("({})").format(sql.SQL(" OR ").join(parts))


def outside(slices: Sequence[Slice], name: str) -> sql.Composable:
    """Which rows none of the slices owns: each part is one look into an index on the column."""
    at, merged = column(name), ranges(slices)
    between = [
        sql.SQL("({} >= {} AND {} < {})").format(at, sql.Literal(end), at, sql.Literal(start))
        for (_, end), (start, _) in pairwise(merged)
    ]
    first, last = sql.Literal(merged[0][0]), sql.Literal(merged[-1][1])
    beyond = [
        sql.SQL("{} IS NULL").format(at),
        sql.SQL("{} < {}").format(at, first),
        sql.SQL("{} >= {}").format(at, last),
    ]
    return sql.SQL("({})").format(sql.SQL(" OR ").join([*beyond, *between]))


def owner_column(stage: Stage, slices: Sequence[Slice]) -> str | None:
    """The column that says which slice a row belongs to; None where the slices have no bounds."""
    bounds = slices[0].bounds
    return None if bounds is None else stage.table.spelled(bounds.column).name
