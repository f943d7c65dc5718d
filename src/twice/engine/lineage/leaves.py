"""The leaves of a frame's plan: everything it reads, each with an identity if its state can be versioned.

Our own walk, since `frame.inputFiles()` misses deletion vectors, subqueries and cached frames. The analysed plan
shows what is read; the optimised plan shows which files of it are left. Every leaf of the analysed plan is accounted
for: by its scan in the optimised plan, or, if the optimiser answered it otherwise, by the version of its table.

A cached frame is looked through to the scans it was computed from: it may hold an older state than its tables.
What cannot be matched there, and everything that is neither files nor literal data, is unversioned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.ports import Leaf
from twice.engine.catalyst import JavaObject, Jvm, PlanNode, class_name, leaf_objects, parse
from twice.engine.lineage.scans import DELTA, DeltaScan, digest, only_rearranged, scan_of, unversioned, whole_table

_ELSEWHERE = frozenset({"CTERelationRef", "UnionLoopRef"})
"""Leaves that refer to a part of the same plan."""

INPUT = "twice_input"
"""In this option of its source a target names what is read, where that has no version: `postgres:shop.orders`."""

# Below one of these only the columns it names are read; below any other node every column may be.
_NARROWING = frozenset({"Project", "Aggregate"})

# These go by position: the ids of what is below them are named nowhere above.
_POSITIONAL = frozenset({"Union", "UnionLoop", "Intersect", "Except", "CTERelationDef"})


@dataclass(frozen=True)
class PlanReads:
    """What the optimised plan reads: scans by the attribute ids they give, and whether a cache is in between; and the
    leaves of the analysed plan that no scan accounts for."""

    scans: tuple[tuple[frozenset[int], DeltaScan | Leaf], ...]
    cached: bool
    others: frozenset[Leaf] = frozenset()

    def accounts_for(self, ids: frozenset[int]) -> bool:
        return any(ids & known for known, _ in self.scans)


def leaves(frame: Any, before: Sequence[Leaf] = ()) -> tuple[Leaf, ...]:
    """What the frame reads now, each leaf once, sorted. Runs no job over data.

    A leaf whose files hold the rows of a leaf of `before`, only rearranged (OPTIMIZE), is given as that leaf: with
    the leaves of the last publish in `before`, `inputs_hash` is then the same.
    """
    reading = read(frame)
    session, jvm = frame.sparkSession._jsparkSession, frame.sparkSession._jvm
    return as_leaves({_folded(scan, before, session, jvm) for _, scan in reading.scans} | reading.others)


def read(frame: Any) -> PlanReads:
    if frame.isStreaming:
        return PlanReads((), False, frozenset({unversioned("stream", "")}))
    # A frame keeps its first optimised plan, while its write will make a new one. So does an alias of the frame.
    execution = frame._jdf.alias("frame").queryExecution()
    jvm = frame.sparkSession._jvm
    reading = _read(execution.optimizedPlan(), jvm)
    others: set[Leaf] = set()
    for leaf in leaf_objects(execution.analyzed()):
        others.update(_analysed(leaf, reading, jvm))
    return replace(reading, others=frozenset(others))


def as_leaves(found: set[Leaf]) -> tuple[Leaf, ...]:
    """A plan that reads nothing is never shown to be the same."""
    return tuple(sorted(found or {unversioned("nothing", "")}, key=repr))


def _folded(scan: DeltaScan | Leaf, before: Sequence[Leaf], session: JavaObject, jvm: Jvm) -> Leaf:
    if isinstance(scan, Leaf):
        return scan
    now = scan.leaf()
    for earlier in before:
        differs = earlier.kind == DELTA and earlier.name == now.name and earlier.identity != now.identity
        if differs and only_rearranged(scan, earlier, session, jvm):
            return earlier
    return now


def _analysed(leaf: JavaObject, reading: PlanReads, jvm: Jvm) -> Iterator[Leaf]:
    """The leaf of the analysed plan, unless the optimised plan's scan of it was already taken."""
    node = parse(leaf.toJSON())
    if node.kind in _ELSEWHERE:
        return
    literal = literal_of(leaf, node, jvm)
    if literal is not None:
        yield literal
    elif node.kind == "DataSourceV2Relation" and leaf.options().containsKey(INPUT):
        system, _, name = str(leaf.options().get(INPUT)).partition(":")
        yield unversioned(system, name)
    elif node.kind != "LogicalRelation":
        yield unversioned("other", node.kind)
    elif not reading.accounts_for(_ids(node)):
        # The scan is gone from the plan. If it went into a cache, it is not known which state that holds.
        relation = leaf.relation()
        yield _without_scan(relation, jvm) if not reading.cached else unversioned("cache", class_name(relation))


def _without_scan(relation: JavaObject, jvm: Jvm) -> Leaf:
    table = whole_table(relation)
    if table is not None:
        return table
    scan = scan_of(relation, (), jvm)
    return scan.leaf() if isinstance(scan, DeltaScan) else scan


def literal_of(leaf: JavaObject, node: PlanNode, jvm: Jvm) -> Leaf | None:
    """Data that is in the plan itself: it is the same whenever the plan is."""
    if node.kind == "OneRowRelation":
        return Leaf("literal", "one row", digest("one row"))
    if node.kind == "Range":
        bounds = [node.fields.get(name) for name in ("start", "end", "step")]
        return Leaf("literal", "range", digest("range", bounds))
    if node.kind == "LocalRelation":
        rows = bytes(jvm.org.apache.commons.lang3.SerializationUtils.serialize(leaf.data()))
        return Leaf("literal", "values", digest("values", _columns(node), rows.hex()))
    return None


def _read(optimised: JavaObject, jvm: Jvm) -> PlanReads:
    used = _used(parse(optimised.toJSON()))
    scans: list[tuple[frozenset[int], DeltaScan | Leaf]] = []
    cached = False
    for leaf in leaf_objects(optimised):
        node = parse(leaf.toJSON())
        if node.kind == "LogicalRelation":
            scans.append((_ids(node), scan_of(leaf.relation(), _columns(node, used), jvm)))
        elif node.kind == "InMemoryRelation":
            cached = True
            scans.extend(_computed_from(leaf.cacheBuilder().cachedPlan(), jvm))
    return PlanReads(tuple(scans), cached)


def _computed_from(physical: JavaObject, jvm: Jvm) -> Iterator[tuple[frozenset[int], DeltaScan | Leaf]]:
    """The file scans of the physical plan behind a cached frame. Adaptive plans and query stages hide theirs."""
    for leaf in leaf_objects(physical):
        kind = class_name(leaf).rpartition(".")[2]
        if kind == "FileSourceScanExec":
            node = parse(leaf.toJSON())
            yield _ids(node), scan_of(leaf.relation(), _columns(node), jvm)
        elif kind == "AdaptiveSparkPlanExec":
            yield from _computed_from(leaf.inputPlan(), jvm)
        elif kind.endswith("QueryStageExec"):
            yield from _computed_from(leaf.plan(), jvm)
        elif kind == "InMemoryTableScanExec":
            yield from _computed_from(leaf.relation().cacheBuilder().cachedPlan(), jvm)
        elif kind.startswith("Reused"):
            yield from _computed_from(leaf.child(), jvm)


def _ids(node: PlanNode) -> frozenset[int]:
    return frozenset(attribute.id for attribute in node.trees("output") if attribute.id is not None)


def _columns(node: PlanNode, used: frozenset[int] | None = None) -> list[str]:
    """Name and type of the columns read: one that is added to a table counts only where it is read."""
    return sorted(
        f"{attribute.name} {attribute.fields['dataType']}"
        for attribute in node.trees("output")
        if used is None or attribute.id in used
    )


def _used(root: PlanNode) -> frozenset[int]:
    """The ids of the attributes that a plan needs from its leaves."""
    used: set[int] = set()
    waiting = [(root, True)]
    while waiting:
        node, whole = waiting.pop()
        if not node.children:
            used |= _ids(node) if whole else set()
            continue
        for inner in (each for tree in node.trees() for each in _expressions(tree)):
            if inner.kind == "AttributeReference" and inner.id is not None:
                used.add(inner.id)
            waiting.extend((plan, True) for plan in inner.trees("plan"))
        below = node.kind not in _NARROWING and (whole or node.kind in _POSITIONAL)
        waiting.extend((child, below) for child in node.children)
    return frozenset(used)


def _expressions(tree: PlanNode) -> Iterator[PlanNode]:
    """The nodes of one expression, without the plans of its subqueries."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children)
        if "plan" not in node.fields:
            waiting.extend(node.trees())
