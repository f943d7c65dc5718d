"""Which of two rows of a key stays: the newer one, then the one whose text is the greater. One order for the rows of a
stage among themselves and for a staged row and the table's."""

from __future__ import annotations

from psycopg import sql

from twice.core.write import UpsertRows
from twice.targets.postgres.condition import condition, owner_column
from twice.targets.postgres.names import column
from twice.targets.postgres.stage import Stage
from twice.targets.postgres.types import TableColumn


def staged_value(held: TableColumn) -> sql.Composable:
    """A staged value as the table's type."""
    at = column(held.name, "s")
    return at if held.cast is None else sql.SQL("{}::{}").format(at, sql.SQL(held.cast))


def staged_content(stage: Stage) -> sql.Composable:
    """A staged row as text, as if the table held it, without the number of its take."""
    return _text([staged_value(each) for each in stage.table.columns])


def held_content(stage: Stage) -> sql.Composable:
    """A row of the table as text."""
    return _text([column(each.name, "t") for each in stage.table.columns])


def newest_first(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The order of staged rows by their stamps, with a comma behind it; nothing without stamps."""
    if verb.newest_by is None:
        return sql.SQL("")
    held = stage.table.spelled(verb.newest_by)
    return sql.SQL("{}{} DESC NULLS LAST, ").format(staged_value(held), _collation(held))


def loses(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The staged row gives way to the one that is there: it is older, or equally new and lesser by its content. Where
    missing rows are deleted, a row outside the slice wins no tie: the slice that it lies in may have lost it."""
    if verb.newest_by is None:
        return sql.SQL("false")
    older = _older(stage, verb.newest_by)
    if verb.wins_ties:
        return older
    inside = condition(verb.slices, owner_column(stage, verb.slices), "t") if verb.delete_missing else sql.SQL("true")
    return sql.SQL('({} OR ({} AND {} IS TRUE AND {} COLLATE "C" < {} COLLATE "C"))').format(
        older, equally_new(stage, verb), inside, staged_content(stage), held_content(stage)
    )


def equally_new(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The staged row has the stamp of the one that is there. NULL equals NULL. Never without stamps."""
    if verb.newest_by is None:
        return sql.SQL("false")
    held = stage.table.spelled(verb.newest_by)
    return sql.SQL("{}{} IS NOT DISTINCT FROM {}").format(staged_value(held), _collation(held), column(held.name, "t"))


def _older(stage: Stage, newest_by: str) -> sql.Composable:
    """NULL is older than everything."""
    held = stage.table.spelled(newest_by)
    return sql.SQL("({1} IS NOT NULL AND ({0} IS NULL OR {0}{2} < {1}{2}))").format(
        staged_value(held), column(held.name, "t"), _collation(held)
    )


def _collation(held: TableColumn) -> sql.SQL:
    return sql.SQL(' COLLATE "C"' if held.textual else "")


def _text(values: list[sql.Composable]) -> sql.Composable:
    return sql.SQL("(ROW({})::text)").format(sql.SQL(", ").join(values))
