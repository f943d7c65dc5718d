"""Results that depend on the order rows happen to arrive in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from twice.lint.facts import OrderFact, OrderProblem, Place
from twice.lint.gather import Fact
from twice.lint.statements.position import SqlPosition
from twice.lint.statements.tree import function_name, is_clock, offset_of

_LIMIT = re.compile(r"\b(limit|top|fetch\s+first)\b", re.I)
_RANKS = (exp.RowNumber,)
_PICKS = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue)
_LISTS = (exp.ArrayAgg, exp.GroupConcat)


def orders_in(tree: exp.Expr, nodes: Sequence[exp.Expr], position: SqlPosition, text: str) -> Iterator[Fact]:
    for node in nodes:
        if isinstance(node, exp.Window) and isinstance(node.this, (*_RANKS, *_PICKS)):
            yield from _window(node, position)
        elif isinstance(node, (*_PICKS, *_LISTS)) and node.find_ancestor(exp.Window) is None:
            yield from _aggregate(node, position)
        elif isinstance(node, exp.Select):
            yield from _select(node, tree, position, text)


def _window(node: exp.Window, position: SqlPosition) -> Iterator[Fact]:
    order = node.args.get("order")
    columns = [item.this for item in order.expressions] if order else []
    call = f"{function_name(node.this)}() OVER"
    problem: OrderProblem
    if not columns:
        problem = "missing"
    elif all(isinstance(c, (exp.Literal, exp.Null, exp.Subquery)) for c in columns):
        problem = "constant"
    elif any(is_clock(part) for column in columns for part in column.walk()):
        problem = "clock"
    elif len(columns) == 1 and isinstance(node.this, exp.RowNumber):
        if isinstance(columns[0], exp.Rand) or not columns[0].find(exp.Column):
            return
        partition = {part.sql().lower() for part in node.args.get("partition_by") or ()}
        problem = "constant" if columns[0].sql().lower() in partition else "single"
    else:
        return
    if not isinstance(node.this, exp.RowNumber) and problem != "missing":
        return
    kind = "row_number" if isinstance(node.this, exp.RowNumber) else "aggregate"
    yield OrderFact(_place(node.this, position), kind, call, problem, tuple(c.sql().lower() for c in columns))  # type: ignore[arg-type]


def _aggregate(node: exp.Expr, position: SqlPosition) -> Iterator[Fact]:
    if node.find(exp.Order) is not None or isinstance(node.parent, (exp.WithinGroup, exp.Order)):
        return
    if isinstance(node.this, exp.Distinct) and isinstance(node, exp.ArrayAgg):
        return
    wrapper = node.parent
    if isinstance(wrapper, exp.Anonymous) and wrapper.name.lower() in ("array_sort", "sort_array", "size"):
        return
    yield OrderFact(_place(node, position), "aggregate", f"{function_name(node)}()", "missing")


def _select(node: exp.Select, tree: exp.Expr, position: SqlPosition, text: str) -> Iterator[Fact]:
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        keys = tuple(part.sql().lower() for part in distinct.args["on"].find_all(exp.Column))
        order = node.args.get("order")
        if order is None or len(order.expressions) <= len(keys):
            yield OrderFact(_place(node, position), "survivor", "DISTINCT ON", "missing", keys)
    elif distinct is not None and isinstance(tree, exp.Insert) and any(e.is_star for e in node.expressions):
        yield OrderFact(_place(node, position), "whole_row", "SELECT DISTINCT *", "missing")
    limit = node.args.get("limit")
    if limit is not None and node.args.get("order") is None and not isinstance(tree, (exp.Select, exp.Union)):
        start = _limit_word(text, offset_of(node) or 0)
        yield OrderFact(position.place(start, start + 5), "limit", "LIMIT", "missing")


def _limit_word(text: str, start: int) -> int:
    found = _LIMIT.search(text, start) or _LIMIT.search(text)
    return found.start() if found else start


def _place(node: exp.Expr, position: SqlPosition) -> Place:
    start = offset_of(node) or 0
    return position.place(start, start + 10)
