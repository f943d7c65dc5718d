"""Does a result fit a table? By name (case does not count), up-casts only, nothing new and nothing missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from twice.core.ports import Column, Shape
from twice.core.write import Layout
from twice.errors import DeclarationError, SchemaDrift

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Only what a double (53 bits) or a float (24 bits) holds exactly: an up-cast loses nothing.
_WIDER = {
    **{name: _INTEGERS[at + 1 :] for at, name in enumerate(_INTEGERS)},
    "float": ("double",),
}
_EXACT_FLOATS = {"tinyint": ("float", "double"), "smallint": ("float", "double"), "int": ("double",)}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


@dataclass(frozen=True)
class Drift:
    """How a result differs from its table. `retyped` pairs the result's column with the table's."""

    new: tuple[Column, ...]
    missing: tuple[Column, ...]
    retyped: tuple[tuple[Column, Column], ...]

    @property
    def only_new(self) -> bool:
        return bool(self.new) and not self.missing and not self.retyped

    def __bool__(self) -> bool:
        return bool(self.new or self.missing or self.retyped)


def drift(result: Shape, table: Shape) -> Drift:
    theirs = {column.name.lower(): column for column in table.columns}
    ours = {column.name.lower(): column for column in result.columns}
    return Drift(
        new=tuple(column for column in result.columns if column.name.lower() not in theirs),
        missing=tuple(column for column in table.columns if column.name.lower() not in ours),
        retyped=tuple(
            (ours[name], column)
            for name, column in theirs.items()
            if name in ours and not fits(ours[name].type, column.type)
        ),
    )


def intended(result: Shape, held: Shape | None, evolve: bool) -> tuple[Column, ...]:
    """The columns of the table that this result is published into: those it has (None: there is no table), and with
    `evolve` the new ones behind them. SchemaDrift if the result does not fit them."""
    check_names(result)
    if held is None:
        return result.columns
    found = drift(result, held)
    if evolve and found.only_new:
        return (*held.columns, *found.new)
    check_fit(result, held)
    return held.columns


def fits(given: str, wanted: str) -> bool:
    """Whether every value of one Spark type is, unchanged, a value of the other."""
    given, wanted = _plain(given), _plain(wanted)
    if given == wanted or given == "void":
        return True
    if wanted in _WIDER.get(given, ()) or wanted in _EXACT_FLOATS.get(given, ()):
        return True
    into = _DECIMAL.fullmatch(wanted)
    if into is None:
        return False
    precision, scale = int(into[1]), int(into[2])
    if given in _DIGITS:
        return precision - scale >= _DIGITS[given]
    of = _DECIMAL.fullmatch(given)
    return of is not None and scale >= int(of[2]) and precision - scale >= int(of[1]) - int(of[2])


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
    if not found:
        return
    differences = [f"{column.name} ({column.type}) is new" for column in found.new]
    differences += [f"{column.name} ({column.type}) is missing" for column in found.missing]
    differences += [f"{ours.name} is {ours.type}, the table has {theirs.type}" for ours, theirs in found.retyped]
    raise SchemaDrift(f"the result's columns are not the table's: {'; '.join(differences)}", fix=_way_out(found))


def _way_out(found: Drift) -> str:
    if found.only_new:
        return "Set evolve=True in the task's policy to add new columns, or drop them from the result."
    if found.retyped:
        return "Cast to the table's types in the task, or declare a new target and backfill it."
    names = ", ".join(column.name for column in found.missing)
    return (
        f"Give {names} still, as NULL. To be rid of it, drop it from the table by your own hand, then run again: ALTER "
        "TABLE … DROP COLUMN, which Delta does once the table has delta.columnMapping.mode = name."
    )


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


def _plain(type_: str) -> str:
    text = type_.lower().strip()
    # The table keeps char and varchar as strings, and Spark spells one type in two ways.
    if re.fullmatch(r"(var)?char\(\d+\)", text):
        return "string"
    return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "null": "void"}.get(text, text)
