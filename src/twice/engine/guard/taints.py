"""What an expression brings in or passes on: the words of suspects.py that its value depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from twice.engine.catalyst import PlanNode, bottom_up
from twice.engine.guard import suspects


class Taint(NamedTuple):
    """`word` of suspects.py. `order_only`: a list whose elements are certain and whose order is not."""

    word: str
    order_only: bool = False


Taints = frozenset[Taint]
CLEAN: Taints = frozenset()

# A list keeps its elements through these, so that sorting it afterwards still makes it certain.
_KEEP_ELEMENTS = frozenset(
    {"Alias", "AggregateExpression", "WindowExpression", "ArrayDistinct", "ArrayFilter", "ArrayCompact", "Cast"}
)
# The order of a list's elements makes no difference to these.
_IGNORE_ORDER = frozenset(
    {"SortArray", "ArraySort", "Size", "ArraySize", "ArrayMax", "ArrayMin", "ArrayContains", "Explode", "Inline"}
)
SPECIAL_TIMES = frozenset({"now", "today", "tomorrow", "yesterday"})
_EXISTS_ANYWAY = frozenset(
    {"Project", "SubqueryAlias", "View", "LocalLimit", "GlobalLimit", "Sort", "Distinct", "Deduplicate"}
)


@dataclass(frozen=True)
class Reach:
    """What arrives at the top of a plan: the output's attribute ids, the taints of some of them, and of the rows."""

    output: tuple[int, ...]
    columns: Mapping[int, Taints] = field(default_factory=dict)
    rows: Taints = CLEAN

    @property
    def anything(self) -> Taints:
        return self.rows.union(*(self.columns.get(each, CLEAN) for each in self.output))


Subquery = Callable[[PlanNode, Mapping[int, Taints]], Reach]
"""Walks the plan of a subquery, given the taints of what it may refer to outside."""


@dataclass(frozen=True)
class ExpressionContext:
    """What surrounds an expression: the taints of the attributes below it, and around its subquery."""

    flagged: frozenset[str]
    subquery: Subquery
    columns: Mapping[int, Taints]
    outer: Mapping[int, Taints]
    grouping: frozenset[int] = frozenset()
    thorough: bool = False

    def taints(self, trees: Iterable[PlanNode]) -> Taints:
        return words(taint for tree in trees for taint in self.taint(tree))

    def taint(self, tree: PlanNode) -> Taints:
        done: dict[int, Taints] = {}
        for node in bottom_up(tree):
            inner = CLEAN.union(*(done[id(child)] for child in node.children)) if node.children else CLEAN
            done[id(node)] = self._own(node, inner, done)
        return done[id(tree)]

    def _own(self, node: PlanNode, inner: Taints, done: Mapping[int, Taints]) -> Taints:
        kind = node.kind
        if kind == "AttributeReference":
            return self.columns.get(node.id or 0, CLEAN)
        if kind == "WindowExpression":
            return self._window(node, done)
        if kind in _IGNORE_ORDER:
            return frozenset(taint for taint in inner if not taint.order_only)
        if kind not in _KEEP_ELEMENTS and inner:
            inner = words(inner)
        word = suspects.WORDS.get(kind) or self._conditional(node)
        if word is not None:
            inner |= {Taint(word, word in suspects.LISTS)}
        if any(isinstance(value, tuple) for value in node.fields.values()):
            inner |= self._held(node)
        return inner

    def _conditional(self, node: PlanNode) -> str | None:
        """Expressions that differ only as they are used here."""
        kind, fields = node.kind, node.fields
        if kind in suspects.ORDER_WORDS:
            return suspects.ORDER_WORDS[kind] if self._depends_on_order(node) else None
        if fields.get("udfDeterministic") is False:
            return suspects.UDF
        if kind == "Cast" and node.children[0].kind == "Literal" and fields.get("dataType") in ("date", "timestamp"):
            special = str(node.children[0].fields.get("value")).strip().lower() in SPECIAL_TIMES
            return "current_timestamp" if special else None
        if self.thorough and kind in suspects.ADDING and _floating(node):
            return suspects.DOUBLES
        if self.thorough and kind in suspects.CHOOSING:
            return suspects.BY
        return suspects.NONDETERMINISTIC if kind in self.flagged else None

    def _depends_on_order(self, node: PlanNode) -> bool:
        if node.kind == "ListAgg":
            return not any(child.kind == "SortOrder" for child in node.children)
        if node.kind == "Mode":
            return "reverseOpt" not in node.fields  # mode(…, deterministic=True) and WITHIN GROUP set it
        if node.kind in ("First", "Last", "AnyValue") and node.children:
            # All rows of a group agree on what they are grouped by, and on a constant.
            value = node.children[0]
            return value.kind != "Literal" and value.id not in self.grouping
        return True

    def _window(self, node: PlanNode, done: Mapping[int, Taints]) -> Taints:
        function, spec = node.children
        if function.kind == "AggregateExpression":
            function = function.children[0]
        word = suspects.ORDER_WORDS.get(function.kind)
        if word is None:
            return done[id(node.children[0])] | words(done[id(spec)])
        arguments = CLEAN.union(*(done[id(child)] for child in function.children))
        certain = _orders_rows(spec) or not self._depends_on_order(function)
        own = CLEAN if certain else frozenset({Taint(word, word in suspects.LISTS)})
        if self.thorough and certain and self._depends_on_order(function):
            own = frozenset({Taint(suspects.BY)})
        return arguments | words(done[id(spec)]) | own

    def _held(self, node: PlanNode) -> Taints:
        """Trees in the fields of an expression: the plan of a subquery, the attribute of an outer reference."""
        if node.kind == "OuterReference":
            return frozenset().union(*(self.outer.get(each.id or 0, CLEAN) for each in node.trees("e")))
        found: Taints = CLEAN
        for plan in node.trees("plan"):
            around = {**self.outer, **self.columns}
            if node.kind == "Exists":
                found |= self.subquery(_deciding(plan), around).rows
            else:
                found |= self.subquery(plan, around).anything
        others = [tree for name in node.fields if name != "plan" for tree in node.trees(name)]
        return found | self.taints(others)


def words(taints: Iterable[Taint]) -> Taints:
    """As taints of a value: what was only an order has become part of something else."""
    return frozenset(Taint(taint.word) for taint in taints)


def _deciding(plan: PlanNode) -> PlanNode:
    """The part of an EXISTS that decides whether there is a row: a limit above it makes no difference."""
    while plan.kind in _EXISTS_ANYWAY:
        plan = plan.children[0]
    return plan


def _orders_rows(spec: PlanNode) -> bool:
    """Has a window an ORDER BY on something that is not constant within its partitions?"""
    partition = {each.id for child in spec.children if child.kind != "SortOrder" for each in child.walk() if each.id}
    orders = [child for child in spec.children if child.kind == "SortOrder"]
    named = {each.id for order in orders for each in order.walk() if each.kind == "AttributeReference"}
    return bool(named - partition)


def _floating(node: PlanNode) -> bool:
    """Whether floating-point numbers are added up: JSON has the types of attributes, literals and casts alone."""
    return any(each.fields.get("dataType") in ("double", "float") for each in node.walk())
