"""The plan guard: what in the analysed plan is not the same on every run, and which result columns it reaches.

What suspects.py lists is followed upward by attribute ids: through projections, aggregates, joins, unions, CTEs
and subqueries to the columns of the result. What never arrives there is not reported. What decides which rows
there are (a condition, a grouping, a limit) reaches all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from twice.core.ports import ALL_ROWS, Suspicion
from twice.engine.catalyst import JavaObject, class_name, items, parse
from twice.engine.guard import suspects
from twice.engine.guard.taint_flow import Walk
from twice.engine.guard.taints import CLEAN, SPECIAL_TIMES

_HARMLESS = frozenset({"RaiseError", "AssertTrue", "AssertNotNull"})
"""Flagged so that the optimiser leaves them in place."""


def suspicions(frame: Any) -> tuple[Suspicion, ...]:
    """Sorted by name, each name once. No job runs."""
    analysed = frame._jdf.queryExecution().analyzed()
    if analysed.deterministic() and not _MAY_DIFFER.search(_text(analysed)):
        return ()
    return _found(frame, analysed, thorough=False)


def likely(frame: Any) -> tuple[Suspicion, ...]:
    """Also what differs on some data only: sums of doubles, ties. For a difference that was seen, not for a guard."""
    return _found(frame, frame._jdf.queryExecution().analyzed(), thorough=True)


def _found(frame: Any, analysed: JavaObject, thorough: bool) -> tuple[Suspicion, ...]:
    walk = Walk(frozenset(_flagged(analysed)), thorough)
    reach = walk.reach(parse(analysed.toJSON()), {})
    names = frame.columns
    columns: dict[str, set[str]] = {}
    for name, attribute in zip(names, reach.output, strict=False):
        for taint in reach.columns.get(attribute, CLEAN):
            columns.setdefault(taint.word, set()).add(name)
    # A node whose output we do not know how to count leaves no way to name columns: then all are meant.
    for taint in reach.rows if len(names) == len(reach.output) else reach.anything:
        columns[taint.word] = {ALL_ROWS}
    return tuple(_suspicion(word, found, names) for word, found in sorted(columns.items()))


def _suspicion(word: str, found: set[str], names: Sequence[str]) -> Suspicion:
    order = [ALL_ROWS] if ALL_ROWS in found else [name for name in dict.fromkeys(names) if name in found]
    reason = suspects.REASONS[word]
    return Suspicion(word, tuple(order), reason.why, reason.fix)


# Writing a plan as text takes Spark 10 ms where JSON takes 400 (200 columns, 30 nodes: it reflects on each node),
# and most plans show nothing. A suspect may hide in no other spelling: every expression writes its own name.
_MAY_DIFFER = re.compile(
    "|".join(
        [rf"\b{word}\(" for word in {*suspects.WORDS.values(), *suspects.ORDER_WORDS.values(), "now"}]
        + [re.escape(word) for word in suspects.PLAN_WORDS]
        + [rf"cast\(\s*{time}\s* as " for time in SPECIAL_TIMES]
    ),
    re.IGNORECASE,
)


def _text(plan: JavaObject) -> str:
    every_field = 2**31 - 1
    return str(plan.treeString(True, False, every_field, False, False))


def _flagged(root: JavaObject) -> Iterator[str]:
    """The classes that Spark's own flag calls non-deterministic and suspects.py does not know.

    Read from the objects, since JSON lacks the flag. One call shows that there is none; clean parts are skipped.
    """
    plans: list[JavaObject] = [root]
    expressions: list[JavaObject] = []
    while plans or expressions:
        if plans:
            plan = plans.pop()
            if not plan.deterministic():
                plans.extend(items(plan.children()))
                expressions.extend(items(plan.expressions()))
            continue
        expression = expressions.pop()
        if expression.deterministic():
            continue
        inner = [child for child in items(expression.children()) if not child.deterministic()]
        expressions.extend(inner)
        kind = class_name(expression).rpartition(".")[2]
        if kind in _SUBQUERIES:
            plans.append(expression.plan())
        elif not inner and kind not in _KNOWN:
            yield kind


_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})
_KNOWN = _HARMLESS | suspects.WORDS.keys() | suspects.ORDER_WORDS.keys() | {"PythonUDF", "ScalaUDF", "PythonUDAF"}
