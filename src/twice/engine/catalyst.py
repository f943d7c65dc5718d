"""Catalyst plans as plain Python data.

A py4j call costs 0.1 to 0.3 ms and a plan with many columns has thousands of nodes, so a plan is fetched once as
JSON (`TreeNode.toJSON`, in Spark since 1.6). It carries every class, attribute id and nested subquery; it lacks
what is no tree or plain value (a relation's files, a UDF's code), which is read from the objects themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

JavaObject = Any
"""Something that lives in the JVM."""

Jvm = Any
"""The JVM itself: py4j's view of its packages."""


@dataclass(frozen=True, eq=False)
class PlanNode:
    """A plan node or an expression. `kind` is its class's own name; `fields` are its parameters, where a field that
    holds trees (expressions of a plan node, the plan of a subquery) is a tuple of nodes."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[PlanNode, ...]

    @property
    def id(self) -> int | None:
        """The expression id of an attribute or alias."""
        found = self.fields.get("exprId")
        return int(found["id"]) if isinstance(found, dict) else None

    @property
    def name(self) -> str:
        return str(self.fields.get("name", ""))

    def trees(self, *names: str) -> tuple[PlanNode, ...]:
        """The trees held in these fields (in any field, if none is named); children are not among them."""
        held = (self.fields.get(name) for name in names) if names else self.fields.values()
        return tuple(node for value in held if isinstance(value, tuple) for node in value if isinstance(node, PlanNode))

    def walk(self) -> Iterator[PlanNode]:
        """This node, its children and the trees in their fields, subqueries included; each parent first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.trees())
            waiting.extend(node.children)


def parse(text: str) -> PlanNode:
    """The tree that `toJSON` wrote."""
    return _tree(json.loads(text))


def bottom_up(root: PlanNode) -> list[PlanNode]:
    """Every node of a plan after its children, children from left to right. Plans may be deeper than Python's stack."""
    found: list[PlanNode] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(node.children)
    return found[::-1]


def items(sequence: JavaObject) -> list[JavaObject]:
    """A Scala Seq as a list."""
    return [sequence.apply(index) for index in range(sequence.size())]


def class_name(thing: JavaObject) -> str:
    return str(thing.getClass().getName())


def leaf_objects(plan: JavaObject) -> list[JavaObject]:
    """The leaves of a logical plan and of all subqueries in its expressions, as JVM objects."""
    return [leaf for each in (plan, *items(plan.subqueriesAll())) for leaf in items(each.collectLeaves())]


def _tree(flat: list[dict[str, Any]]) -> PlanNode:
    """A tree is written as a list, each node before its children, which are given only by their number."""
    stack: list[PlanNode] = []
    for raw in reversed(flat):
        children = tuple(stack.pop() for _ in range(raw["num-children"]))
        fields = {name: _field(value) for name, value in raw.items()}
        stack.append(PlanNode(raw["class"].rpartition(".")[2], fields, children))
    (root,) = stack
    return root


def _field(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        return value
    if _is_tree(value):
        return (_tree(value),)
    found = tuple(node for item in value for node in _nested(item))
    return found or value


def _nested(item: Any) -> Iterator[PlanNode]:
    """Sequences of trees, and sequences of sequences (the projections of an Expand)."""
    if _is_tree(item):
        yield _tree(item)
    elif isinstance(item, list):
        for inner in item:
            yield from _nested(inner)


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]
