"""Clocks, random values and holes inside a statement, and where their value goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from twice.lint.facts import ClockFact, ClockUse, IdFact, Place
from twice.lint.gather import Fact
from twice.lint.statements.position import SqlPosition
from twice.lint.statements.tree import (
    expression_holes,
    in_filter,
    is_clock,
    is_engine_id,
    is_random,
    is_random_id,
    name_of,
    offset_of,
)
from twice.lint.vocabulary import is_audit_column

_BARE = re.compile(
    r"\b(current_(date|timestamp|time)|sysdate|systimestamp|localtime(stamp)?|now|getdate|curdate)\b", re.I
)


@dataclass(frozen=True)
class HoleUse:
    """Where a value from outside goes: into a filter, a target's name, or a column."""

    name: str
    use: ClockUse
    column: str
    offset: int


_VARIABLE = re.compile(
    r"(?:declare|set|let)\s+[@$:]?(\w+)\b[^=;]{0,60}?(?::?=|\bdefault\b)(.{0,300})", re.IGNORECASE | re.DOTALL
)
_CLOCK_WORD = re.compile(
    r"\b(getdate|getutcdate|sysdatetime|sysutcdatetime|current_date|current_timestamp|current_datetime|now|curdate|sysdate)\b",
    re.IGNORECASE,
)


def clock_variable(text: str) -> tuple[str, str, int] | None:
    """``DECLARE @today = GETDATE()``: the variable, the clock's word and where it is."""
    match = _VARIABLE.match(text) if len(text) < 600 else None
    clock = _CLOCK_WORD.search(text, match.start(2)) if match else None
    return (match[1].lower(), clock[0], clock.start()) if match and clock else None


def variables_in(tree: exp.Expr, variables: dict[str, tuple[str, Place]]) -> Iterator[Fact]:
    """Uses of variables that hold a clock's value; the fact is placed where the clock was read."""
    for node in tree.walk():
        name = node.name.lower() if isinstance(node, (exp.Parameter, exp.SessionParameter)) else ""
        if isinstance(node, exp.Column) and not node.table:
            name = node.name.lower()
        if name not in variables:
            continue
        use, column = destination(node, tree)
        if use:
            call, place = variables[name]
            yield ClockFact(place, call, use, column)  # type: ignore[arg-type]


def clocks_in(tree: exp.Expr, nodes: Sequence[exp.Expr], position: SqlPosition, text: str) -> Iterator[Fact]:
    for node in nodes:
        if not is_clock(node):
            continue
        use, column = destination(node, tree)
        if use == "" or (isinstance(tree, exp.Create) and str(tree.kind).upper() == "VIEW"):
            continue  # a view's window moves on purpose
        start = _start(node, text)
        call = text[start : start + 40].split("(")[0].split()[0].strip(",;)") if text[start:].split() else "now"
        place = position.place(start, start + len(call))
        if isinstance(tree, (exp.Select, exp.Union)):
            place = replace(place, within=place.within | {"query"})
        yield ClockFact(place, call.upper() if len(call) < 30 else "now()", use, column)  # type: ignore[arg-type]


def ids_in(tree: exp.Expr, nodes: Sequence[exp.Expr], position: SqlPosition, text: str) -> Iterator[Fact]:
    stored = isinstance(tree, (exp.Insert, exp.Merge, exp.Update)) or (
        isinstance(tree, exp.Create) and str(tree.kind).upper() == "TABLE"
    )
    for node in nodes:
        random_id = is_random_id(node)
        engine_id = is_engine_id(node)
        if not (random_id or engine_id or is_random(node)):
            continue
        if node.find_ancestor(exp.Order) is not None:
            continue
        start = _start(node, text)
        call = text[start : start + 40].split(")")[0].strip() + (")" if "(" in text[start : start + 40] else "")
        place = position.place(start, start + len(call))
        column = column_of(node, tree)
        if node.find_ancestor(exp.ColumnDef) is not None:
            column = node.find_ancestor(exp.ColumnDef).name  # type: ignore[union-attr]
        if random_id and (stored or column) and not in_filter(node):
            yield IdFact(place, call, "random", column)
        elif engine_id and not in_filter(node):
            yield IdFact(place, call, "engine_row", column)
        elif is_random(node) and not random_id:
            yield IdFact(place, call, "sample", column)


def hole_uses(tree: exp.Expr) -> Iterator[HoleUse]:
    target = tree.this if isinstance(tree, (exp.Insert, exp.Merge, exp.Create, exp.Delete, exp.Update)) else None
    names = {id(part) for part in target.walk()} if isinstance(target, (exp.Table, exp.Schema)) else set()
    for name, node in expression_holes(tree):
        if id(node) in names or (node.parent is not None and node.find_ancestor(exp.Table)):
            yield HoleUse(name, "path", "", offset_of(node) or 0)
            continue
        use, column = destination(node, tree)
        if use:
            yield HoleUse(name, use, column, offset_of(node) or 0)  # type: ignore[arg-type]


def destination(node: exp.Expr, tree: exp.Expr) -> tuple[str, str]:
    """Where a value goes: a use of `ClockUse` and the column, or ("", "") when it only takes part in a sum."""
    if node.find_ancestor(exp.DefaultColumnConstraint):
        definition = node.find_ancestor(exp.ColumnDef)
        return "column_default", definition.name if definition else ""
    if in_filter(node):
        return "filter", _compared(node)
    if node.find_ancestor(exp.Order, exp.Limit, exp.Group):
        return "", ""
    column = column_of(node, tree)
    if not column and isinstance(tree, exp.Select):
        return "", ""
    if node.find_ancestor(exp.DateDiff, exp.TsOrDsDiff, exp.TimestampDiff, exp.DatetimeDiff):
        return "key_column", column
    return ("audit_column" if is_audit_column(column) else "key_column"), column


def column_of(node: exp.Expr, tree: exp.Expr) -> str:
    """The column of the result or of the target that receives the value."""
    child: exp.Expr = node
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Alias):
            return parent.alias.lower()
        if isinstance(parent, exp.EQ) and isinstance(parent.parent, (exp.Update, exp.OnConflict)):
            return str(parent.this.name).lower()
        if isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values):
            return _by_position(tree, [id(item) for item in parent.expressions].index(id(child)))
        if isinstance(parent, exp.Select):
            ids = [id(item) for item in parent.expressions]
            return _by_position(tree, ids.index(id(child))) if id(child) in ids else ""
        if isinstance(parent, exp.When):
            return ""
        child, parent = parent, parent.parent
    return ""


def _by_position(tree: exp.Expr, index: int) -> str:
    if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
        columns = tree.this.expressions
        return str(columns[index].name).lower() if index < len(columns) else ""
    return ""


def _compared(node: exp.Expr) -> str:
    test = node.find_ancestor(exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.NEQ)
    column = test.find(exp.Column) if test else None
    return column.name.lower() if column else ""


def _start(node: exp.Expr, text: str) -> int:
    start = node.meta.get("start")
    if isinstance(start, int):
        return start
    # Clock words without parentheses carry no position of their own in the tree: take the one nearest to a
    # neighbour that has one, or of two clocks in a statement the first would be shown twice.
    around = node.parent
    while around is not None and offset_of(around) is None:
        around = around.parent
    near = (offset_of(around) if around is not None else 0) or 0
    found = [match.start() for match in _BARE.finditer(text)]
    return min(found, key=lambda start: abs(start - near)) if found else near


__all__ = ["HoleUse", "clocks_in", "column_of", "destination", "hole_uses", "ids_in", "name_of"]
