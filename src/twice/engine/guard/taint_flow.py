"""How taints travel up a plan, node by node, by attribute ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twice.engine.catalyst import PlanNode, bottom_up
from twice.engine.guard import suspects
from twice.engine.guard.taints import CLEAN, ExpressionContext, Reach, Taint, Taints, words

_KEEPS_ORDER = frozenset({"Project", "Filter", "SubqueryAlias", "View", "LocalLimit", "GlobalLimit", "Offset"})
_FIXED_ROWS = frozenset({"OneRowRelation", "LocalRelation", "Range"})


class Walk:
    """One walk over one plan. It remembers common table expressions and sorts, which are reached before their use."""

    def __init__(self, flagged: frozenset[str], thorough: bool = False) -> None:
        self.flagged = flagged
        self.thorough = thorough
        self.ctes: dict[int, Reach] = {}
        self.sorts: dict[int, Taints] = {}

    def reach(self, root: PlanNode, outer: Mapping[int, Taints]) -> Reach:
        """`outer`: the taints of the attributes that a correlated subquery may refer to."""
        done: dict[int, Reach] = {}
        for node in bottom_up(root):
            below = [done[id(child)] for child in node.children]
            at = ExpressionContext(self.flagged, self.reach, _merged(below), outer, thorough=self.thorough)
            rows = CLEAN.union(*(each.rows for each in below))
            output = tuple(each for reach in below for each in reach.output)
            step = _TaintedNode(node, below, at, Reach(output, at.columns, rows), self)
            done[id(node)] = _HANDLERS.get(node.kind, _other)(step)
        return done[id(root)]


@dataclass(frozen=True)
class _TaintedNode:
    """A node with what arrives from below it; `under` is all of that side by side."""

    node: PlanNode
    below: Sequence[Reach]
    at: ExpressionContext
    under: Reach
    walk: Walk

    def passing(self, rows: Iterable[Taint] = ()) -> Reach:
        """All columns go on as they are; `rows` decides on which rows do."""
        return replace(self.under, rows=self.under.rows.union(rows))


def _merged(below: Sequence[Reach]) -> Mapping[int, Taints]:
    if len(below) == 1:
        return below[0].columns
    return {attribute: taints for reach in below for attribute, taints in reach.columns.items()}


def _ids(trees: Iterable[PlanNode]) -> tuple[int, ...]:
    return tuple(tree.id for tree in trees if tree.id is not None)


def _named(trees: Sequence[PlanNode], at: ExpressionContext) -> tuple[tuple[int, ...], dict[int, Taints]]:
    """The ids of named expressions, and the taints of those that have any."""
    found = {tree.id: at.taint(tree) for tree in trees if tree.id is not None}
    return _ids(trees), {attribute: taints for attribute, taints in found.items() if taints}


def _other(step: _TaintedNode) -> Reach:
    """A leaf, a function over whole rows, or a node that lets its columns pass. What its expressions do there is
    not known, so they are taken to decide on rows."""
    if not step.below:
        attributes = step.node.trees("output")
        named = [each for each in attributes if each.name == "_metadata" and each.id is not None]
        return Reach(_ids(attributes), {each: frozenset({Taint(suspects.METADATA)}) for each in _ids(named)})
    if step.node.trees("output", "serializer"):
        return _opaque(step)
    return step.passing(step.at.taints(step.node.trees()))


def _opaque(step: _TaintedNode) -> Reach:
    """mapInPandas, applyInPandas and the like: anything below may reach any column above."""
    output = _ids(step.node.trees("output", "serializer"))
    held = [tree for name in step.node.fields if name != "output" for tree in step.node.trees(name)]
    everything = words(taint for taints in step.under.columns.values() for taint in taints) | step.at.taints(held)
    return Reach(output, dict.fromkeys(output, everything) if everything else {}, step.under.rows)


def _project(step: _TaintedNode) -> Reach:
    return Reach(*_named(step.node.trees("projectList"), step.at), step.under.rows)


def _aggregate(step: _TaintedNode) -> Reach:
    keys = step.node.trees("groupingExpressions")
    inside = replace(step.at, grouping=frozenset(_ids(keys)))
    output, columns = _named(step.node.trees("aggregateExpressions"), inside)
    return Reach(output, columns, step.under.rows | step.at.taints(keys))


def _window(step: _TaintedNode) -> Reach:
    output, columns = _named(step.node.trees("windowExpressions"), step.at)
    return Reach(step.under.output + output, {**step.under.columns, **columns}, step.under.rows)


def _filter(step: _TaintedNode) -> Reach:
    return step.passing(step.at.taints(step.node.trees("condition")))


def _join(step: _TaintedNode) -> Reach:
    joined = step.passing(step.at.taints(step.node.trees()))
    one_sided = any(kind in str(step.node.fields.get("joinType")) for kind in ("LeftSemi", "LeftAnti"))
    return replace(joined, output=step.below[0].output) if one_sided else joined


def _lateral_join(step: _TaintedNode) -> Reach:
    (right,) = (plan for each in step.node.trees("right") for plan in each.trees("plan"))
    inner = step.walk.reach(right, {**step.at.outer, **step.at.columns})
    rows = step.under.rows | inner.rows | step.at.taints(step.node.trees("condition"))
    return Reach(step.under.output + inner.output, {**step.under.columns, **inner.columns}, rows)


def _union(step: _TaintedNode) -> Reach:
    """A union's attributes are its first child's; each holds what any child has in that place."""
    columns: dict[int, Taints] = {}
    for side in step.below:
        for attribute, own in zip(step.below[0].output, side.output, strict=False):
            if own in side.columns:
                columns[attribute] = columns.get(attribute, CLEAN) | side.columns[own]
    return Reach(step.below[0].output, columns, step.under.rows)


def _set_operation(step: _TaintedNode) -> Reach:
    """INTERSECT and EXCEPT: which rows stay depends on every value of both sides."""
    decides = words(taint for each in step.below for taint in each.anything)
    return Reach(step.below[0].output, step.below[0].columns, decides)


def _deduplicate(step: _TaintedNode) -> Reach:
    """The values of the key are certain; the rest of the row is that of any row with this key."""
    keys = set(_ids(step.node.trees("keys")))
    arbitrary = frozenset({Taint(suspects.DROP_DUPLICATES)})
    columns = {each: step.under.columns.get(each, CLEAN) for each in step.under.output}
    columns = {each: taints if each in keys else taints | arbitrary for each, taints in columns.items()}
    decides = words(taint for key in keys for taint in columns.get(key, CLEAN))
    found = {each: taints for each, taints in columns.items() if taints}
    return Reach(step.under.output, found, step.under.rows | decides)


def _limit(step: _TaintedNode) -> Reach:
    if any(tree.fields.get("value") == "0" for tree in step.node.trees("limitExpr")):
        return step.under
    inner = step.node.children[0]
    while inner.kind in _KEEPS_ORDER:
        inner = inner.children[0]
    one_row = inner.kind == "Aggregate" and not inner.trees("groupingExpressions")
    if one_row or inner.kind in _FIXED_ROWS:
        return step.under
    sorted_by = step.walk.sorts.get(id(inner))
    if sorted_by is None:
        return step.passing({Taint(suspects.LIMIT)})
    return step.passing(sorted_by | {Taint(suspects.BY)} if step.walk.thorough else sorted_by)


def _sort(step: _TaintedNode) -> Reach:
    """Sorting changes no row; but a limit above it takes rows by what it sorts by."""
    order = step.node.trees("order")
    taints = step.at.taints(order)
    decides = taints or any(each.kind == "AttributeReference" for tree in order for each in tree.walk())
    if step.node.fields.get("global") and decides:
        step.walk.sorts[id(step.node)] = taints
    return step.under


def _sample(step: _TaintedNode) -> Reach:
    return step.passing({Taint(suspects.SAMPLE)})


def _moved(step: _TaintedNode) -> Reach:
    """Rows are stored elsewhere, and are the same rows: what decides where makes no difference."""
    return step.under


def _generate(step: _TaintedNode) -> Reach:
    made = _ids(step.node.trees("generatorOutput"))
    dropped = set(step.node.fields.get("unrequiredChildIndex") or ())
    kept = tuple(each for index, each in enumerate(step.under.output) if index not in dropped)
    taints = CLEAN.union(*(step.at.taint(tree) for tree in step.node.trees("generator")))
    columns = {**step.under.columns, **(dict.fromkeys(made, taints) if taints else {})}
    return Reach(kept + made, columns, step.under.rows)


def _expand(step: _TaintedNode) -> Reach:
    """Grouping sets and unpivot: several rows from one, each by its own projection, all to the same columns."""
    output = _ids(step.node.trees("output"))
    if not step.node.trees("projections"):
        # Unpivot holds them in arrays, which the JSON of Spark 4.1 leaves out: any value may be in a new column.
        everything = step.under.anything - step.under.rows
        made = {each: everything for each in output if everything and each not in step.under.output}
        return Reach(output, {**step.under.columns, **made}, step.under.rows)
    columns: dict[int, Taints] = {}
    for index, tree in enumerate(step.node.trees("projections")):
        taints = step.at.taint(tree)
        if taints:
            attribute = output[index % len(output)]
            columns[attribute] = columns.get(attribute, CLEAN) | taints
    return Reach(output, columns, step.under.rows)


def _with_cte(step: _TaintedNode) -> Reach:
    return step.below[-1]  # the definitions come first; what is used of them came with its references


def _cte_definition(step: _TaintedNode) -> Reach:
    step.walk.ctes[step.node.fields["id"]] = step.below[0]
    return step.below[0]


def _cte_reference(step: _TaintedNode) -> Reach:
    output = _ids(step.node.trees("output"))
    known = step.walk.ctes.get(step.node.fields.get("cteId", -1))
    if known is None:  # a recursive reference: what it gives came in by its anchor
        return Reach(output)
    pairs = zip(output, known.output, strict=False)
    columns = {own: known.columns[defined] for own, defined in pairs if defined in known.columns}
    return Reach(output, columns, known.rows)


_HANDLERS: dict[str, Callable[[_TaintedNode], Reach]] = {
    "Project": _project,
    "Aggregate": _aggregate,
    "Window": _window,
    "Filter": _filter,
    "Join": _join,
    "AsOfJoin": _join,
    "LateralJoin": _lateral_join,
    "Union": _union,
    "UnionLoop": _union,
    "Intersect": _set_operation,
    "Except": _set_operation,
    "Deduplicate": _deduplicate,
    "DeduplicateWithinWatermark": _deduplicate,
    "GlobalLimit": _limit,
    "LocalLimit": _moved,  # each is below its GlobalLimit
    "Offset": _limit,
    "Tail": _limit,
    "Sort": _sort,
    "Sample": _sample,
    "Repartition": _moved,
    "RepartitionByExpression": _moved,
    "RebalancePartitions": _moved,
    "Generate": _generate,
    "Expand": _expand,
    "WithCTE": _with_cte,
    "CTERelationDef": _cte_definition,
    "CTERelationRef": _cte_reference,
    "UnionLoopRef": _cte_reference,
}
