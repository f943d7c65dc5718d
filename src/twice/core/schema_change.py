"""How a result's columns differ from its table's, and what may be done about each of them. Pure.

A change is made *in place*, by the commit of the rows, only if it rewrites no row, loses nothing, and every reader of
the table goes on as before: new columns everywhere, more digits of a decimal on PostgreSQL. Everything else needs the
table to be filled again: `twice rebuild` (decision 0028).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from twice.core.ports import Column, Shape

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Only what a double (53 bits) or a float (24 bits) holds exactly: an up-cast loses nothing.
_WIDER = {
    **{name: _INTEGERS[at + 1 :] for at, name in enumerate(_INTEGERS)},
    "float": ("double",),
}
_EXACT_FLOATS = {"tinyint": ("float", "double"), "smallint": ("float", "double"), "int": ("double",)}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")

Widens = Callable[[str, str], bool]
"""Whether a table system makes a column of the first Spark type one of the second in place."""


def never(held: str, given: str) -> bool:  # noqa: ARG001
    """Delta could, by a feature of the table that older readers do not know and that ends staging in place."""
    return False


def more_digits(held: str, given: str) -> bool:
    """PostgreSQL: a decimal of the same scale. Every other change of a type rewrites the table under a lock."""
    before, after = _DECIMAL.fullmatch(_plain(held)), _DECIMAL.fullmatch(_plain(given))
    return before is not None and after is not None and before[2] == after[2] and int(after[1]) > int(before[1])


@dataclass(frozen=True)
class Drift:
    """How a result differs from its table. `retyped` pairs the result's column with the table's."""

    new: tuple[Column, ...]
    missing: tuple[Column, ...]
    retyped: tuple[tuple[Column, Column], ...]

    @property
    def only_new(self) -> bool:
        return bool(self.new) and not self.missing and not self.retyped

    @property
    def renamed(self) -> tuple[Column, Column] | None:
        """The old and the new column, where one is missing and one of the same type is new."""
        if len(self.new) != 1 or len(self.missing) != 1 or _plain(self.new[0].type) != _plain(self.missing[0].type):
            return None
        return self.missing[0], self.new[0]

    def __bool__(self) -> bool:
        return bool(self.new or self.missing or self.retyped)


@dataclass(frozen=True)
class WayOut:
    """What may be done about one column: the next run changes the table with `evolve=True`, or it takes a rebuild.
    `text` says it, and what may be done in the task's code instead."""

    column: str
    how: Literal["evolve", "rebuild"]
    text: str


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


def ways_out(found: Drift, widens: Widens = never) -> tuple[WayOut, ...]:
    """For each column that does not fit, in the order of the message."""
    renamed = found.renamed
    if renamed is not None:
        old, new = renamed
        text = f"If {old.name} was renamed to {new.name}: name it {old.name} in the result still."
        ways = [WayOut(f"{old.name} to {new.name}", "rebuild", text)]
    else:
        ways = [_added(column) for column in found.new]
        ways += [_missing(column) for column in found.missing]
    return (*ways, *(_retyped(ours, theirs, widens) for ours, theirs in found.retyped))


def _added(column: Column) -> WayOut:
    text = f"{column.name}: set evolve=True in the task's policy, and the next run adds it; or drop it from the result."
    return WayOut(column.name, "evolve", text)


def _missing(column: Column) -> WayOut:
    return WayOut(column.name, "rebuild", f"{column.name}: give it still, as NULL.")


def _retyped(ours: Column, theirs: Column, widens: Widens) -> WayOut:
    if widens(theirs.type, ours.type):
        text = f"{ours.name}: set evolve=True in the task's policy, and the next run widens it to {ours.type}."
        return WayOut(ours.name, "evolve", text)
    wider = "the result is wider" if fits(theirs.type, ours.type) else "not every value fits"
    text = f"{ours.name}: cast it to {theirs.type} in the task ({wider})."
    return WayOut(ours.name, "rebuild", text)


def why_not_copied(table: Shape, result: Shape) -> str | None:
    """Which column of a table has values that the result's column of its name may not hold; None if there is none.
    Columns that only one of them has are no obstacle: they are left out, or NULL."""
    ours = {column.name.lower(): column for column in result.columns}
    for column in table.columns:
        wanted = ours.get(column.name.lower())
        if wanted is not None and not fits(column.type, wanted.type):
            return f"{column.name} is {column.type} in the table and {wanted.type} in the result"
    return None


def renamed_shape(table: Shape, names: Mapping[str, str]) -> Shape:
    """A table's columns under other names, by their old ones; case does not count in these."""
    new = {old.lower(): name for old, name in names.items()}
    columns = tuple(replace(column, name=new.get(column.name.lower(), column.name)) for column in table.columns)
    return replace(table, columns=columns)


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


def _plain(type_: str) -> str:
    text = type_.lower().strip()
    # The table keeps char and varchar as strings, and Spark spells one type in two ways.
    if re.fullmatch(r"(var)?char\(\d+\)", text):
        return "string"
    return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "null": "void"}.get(text, text)
