"""Which of two rows of a key stays: the newer one, then the one whose text is the greater. One order for the rows of a
stage among themselves and for a staged row and the table's. A staged value is compared as the table would hold it."""

from __future__ import annotations

from psycopg import sql

from twice.core.write import UpsertRows
from twice.targets.postgres.server.names import column
from twice.targets.postgres.server.types import TableColumn
from twice.targets.postgres.write.condition import condition, owner_column
from twice.targets.postgres.write.stage import Stage

_BYTES = sql.SQL(' COLLATE "C"')


def staged_value(held: TableColumn) -> sql.Composable:
    """A staged value as it is written: in the table's type, or as text that the server measures."""
    at = column(held.name, "s")
    return at if held.cast is None else sql.SQL("{}::{}").format(at, sql.SQL(held.cast))


def as_stored(held: TableColumn) -> sql.Composable:
    """A staged value as the table would hold it, to be compared with `held_value` and with others of the stage.

    What `char(n)` pads and `varchar(n)` cuts off are blanks at the end. As text both are without the padding; text that
    is too long for its column stays whole, so that it equals none that is there, is written, and refused."""
    if not held.characters:
        return staged_value(held)
    return sql.SQL("(CASE WHEN {0}::{1}::bpchar{2} = {0}::bpchar{2} THEN {0}::{1}::text{2} ELSE {0} END)").format(
        column(held.name, "s"), sql.SQL(held.native), _brackets(held)
    )


def held_value(held: TableColumn) -> sql.Composable:
    """A value of the table, in the form of `as_stored`."""
    at = column(held.name, "t")
    return sql.SQL("{}::text{}").format(at, _brackets(held)) if held.characters else at


def grouped(held: TableColumn) -> sql.Composable:
    """What staged values are distinguished by. What the server cannot compare (json), by its text."""
    return as_stored(held) if held.comparable else column(held.name, "s")


def differ(held: TableColumn) -> sql.Composable:
    """The staged value is not the table's."""
    return sql.SQL("{} IS DISTINCT FROM {}").format(*comparands(held))


def comparands(held: TableColumn) -> tuple[sql.Composable, sql.Composable]:
    """The table's value and the staged one, so that the server distinguishes them if they differ. Text by its bytes:
    there are collations that take Bob for bob."""
    form, collation = ("{}{}", _collation(held)) if held.comparable else ("({})::text{}", _BYTES)
    theirs, staged = (sql.SQL(form).format(value, collation) for value in (held_value(held), as_stored(held)))
    return theirs, staged


def staged_content(stage: Stage) -> sql.Composable:
    """A staged row as text, as if the table held it, without the number of its take."""
    return _text([as_stored(each) for each in stage.table.columns])


def held_content(stage: Stage) -> sql.Composable:
    """A row of the table as text."""
    return _text([held_value(each) for each in stage.table.columns])


def newest_first(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The order of staged rows by their stamps, with a comma behind it; nothing without stamps."""
    if verb.newest_by is None:
        return sql.SQL("")
    held = stage.table.spelled(verb.newest_by)
    return sql.SQL("{}{} DESC NULLS LAST, ").format(as_stored(held), _collation(held))


def loses(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The staged row loses to the one that is there: it is older, or equally new and lesser by its content. Where
    missing rows are deleted, a row outside the slice wins no tie: its slice may have lost it."""
    if verb.newest_by is None:
        return sql.SQL("false")
    older = _older(stage, verb.newest_by)
    if verb.wins_ties:
        return older
    inside = condition(verb.slices, owner_column(stage, verb.slices), "t") if verb.delete_missing else sql.SQL("true")
    return sql.SQL('({} OR ({} AND {} IS TRUE AND {} COLLATE "C" < {} COLLATE "C"))').format(
        older, equally_new(stage, verb), inside, staged_content(stage), held_content(stage)
    )


def older_elsewhere(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The staged row is older than one of another slice, which that slice may be about to delete. Never where missing
    rows stay."""
    if verb.newest_by is None or not verb.delete_missing:
        return sql.SQL("false")
    inside = condition(verb.slices, owner_column(stage, verb.slices), "t")
    return sql.SQL("({} AND {} IS NOT TRUE)").format(_older(stage, verb.newest_by), inside)


def equally_new(stage: Stage, verb: UpsertRows) -> sql.Composable:
    """The staged row has the stamp of the one that is there. NULL equals NULL. Never without stamps."""
    if verb.newest_by is None:
        return sql.SQL("false")
    held = stage.table.spelled(verb.newest_by)
    return sql.SQL("{}{} IS NOT DISTINCT FROM {}").format(as_stored(held), _collation(held), held_value(held))


def _older(stage: Stage, newest_by: str) -> sql.Composable:
    """NULL is older than everything."""
    held = stage.table.spelled(newest_by)
    return sql.SQL("({1} IS NOT NULL AND ({0} IS NULL OR {0}{2} < {1}{2}))").format(
        as_stored(held), held_value(held), _collation(held)
    )


def _collation(held: TableColumn) -> sql.SQL:
    return _BYTES if held.textual else sql.SQL("")


def _brackets(held: TableColumn) -> sql.SQL:
    return sql.SQL("[]" if held.array else "")


def _text(values: list[sql.Composable]) -> sql.Composable:
    return sql.SQL("(ROW({})::text)").format(sql.SQL(", ").join(values))
