"""Does a result fit a table? By name (case does not count), up-casts only, nothing new and nothing missing."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.ports import Column, Shape
from twice.core.schema_change import Drift, WayOut, Widens, drift, never, ways_out
from twice.core.write import Layout
from twice.errors import DeclarationError, SchemaDrift


def intended(result: Shape, held: Shape | None, evolve: bool, widens: Widens = never) -> tuple[Column, ...]:
    """The columns of the table that this result is published into: those it has (None: there is no table), and with
    `evolve` wider where the system widens them in place, and the new ones behind them. SchemaDrift if the result does
    not fit them."""
    check_names(result)
    if held is None:
        return result.columns
    found = drift(result, held)
    if not found:
        return held.columns
    ways = ways_out(found, widens)
    if not evolve or any(way.how != "evolve" for way in ways):
        raise _refusal(found, ways, evolve)
    wider = {theirs.name: ours.type for ours, theirs in found.retyped}
    return (*(Column(each.name, wider.get(each.name, each.type)) for each in held.columns), *found.new)


def check_names(result: Shape) -> None:
    """Two columns of one name (case does not count) have no home in a table."""
    seen: set[str] = set()
    for column in result.columns:
        if column.name.lower() in seen:
            raise SchemaDrift(
                f"the result has two columns named {column.name}",
                fix="Rename or drop one of them; names that differ only by case are the same name.",
            )
        seen.add(column.name.lower())


def check_fit(result: Shape, table: Shape) -> None:
    """Raises SchemaDrift naming every column that does not fit."""
    check_names(result)
    found = drift(result, table)
    if found:
        raise _refusal(found, ways_out(found), evolve=False)


def _refusal(found: Drift, ways: Sequence[WayOut], evolve: bool) -> SchemaDrift:
    differences = [f"{column.name} ({column.type}) is new" for column in found.new]
    differences += [f"{column.name} ({column.type}) is missing" for column in found.missing]
    differences += [f"{ours.name} is {ours.type}, the table has {theirs.type}" for ours, theirs in found.retyped]
    refused = SchemaDrift(
        f"the result's columns are not the table's: {'; '.join(differences)}",
        fix=" ".join(way.text for way in ways if not (evolve and way.how == "evolve")),
    )
    refused.rebuild = tuple(way.column for way in ways if way.how == "rebuild")
    return refused


def check_named(table: str, shape: Shape, layout: Layout) -> None:
    """Refuse a table without the columns that a write names: its key, and the slice column it deletes by."""
    types = {column.name.lower(): column.type for column in shape.columns}
    for key in layout.key:
        if key.lower() not in types:
            raise DeclarationError(
                f"{table} has no column {key}, which is the key",
                now="The table is unchanged.",
                fix=f"It has: {', '.join(column.name for column in shape.columns)}.",
            )
        if types[key.lower()].startswith(("map<", "variant")):
            raise DeclarationError(
                f"{key} of {table} is a {types[key.lower()]}, which cannot be compared, so it cannot be a key",
                now="The table is unchanged.",
                fix="Take columns of a plain type as the key.",
            )
    wanted = layout.slice_column
    if wanted is not None and types.get(wanted.name.lower()) != wanted.type:
        held = types.get(wanted.name.lower())
        raise DeclarationError(
            f"{table} has {f'{wanted.name} of type {held}' if held else f'no {wanted.name}'}, and this scope needs "
            f"{wanted.type}",
            now="The table is unchanged.",
            fix="Use the scope the table was created with, or give the task a new target.",
        )
