"""What is the status of many slices? From the ledger and the inputs' logs, without building a query plan for each.

The answer is `decide`'s, as for a run; what the inputs of now are is read from the commits that their tables had since.
What a slice depends on beside its tables (files, the constants of its query plan, functions) is in no log: the query
plan of one slice is built for it, and is good for all, since a function that does not ask for the run cannot know one
slice from another. Where it does ask, or where the one does not agree, each slice's own is built, as a run would.
In doubt a slice counts as stale: its run looks closer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.backfill.plan import PlannedSlice
from twice.core.ledger.record import TABLE, InputRecord, RunRecord
from twice.core.lineage import EARLIER, NO_VERSION, has_plan, what_changed
from twice.core.ports import Leaf, Target, Touched
from twice.core.slice import Slice
from twice.core.table.token import Intention, SliceToken, token_name
from twice.core.task import Read, TableName, Task
from twice.errors import TwiceError
from twice.runtime.context import RunContext
from twice.runtime.result.compute import Computed, Pins, compute
from twice.runtime.staleness.decide import SliceState, decide, difference, rerun_of
from twice.runtime.staleness.touched import newest_touch
from twice.runtime.table.cut import in_doubt, stored_cut
from twice.runtime.table.displaced_rows import displaced
from twice.runtime.table.owner import refuse_taken
from twice.runtime.table.provenance import Provenance
from twice.runtime.table.same_table import made_by_others
from twice.runtime.write_plan import make_write_plan

_HARMLESS = frozenset({"literal", "rows"})
"""Leaves that are the same whenever the code and the pinned tables are."""


def slice_statuses(context: RunContext, task: Task, slices: Sequence[Slice], session: Any) -> tuple[PlannedSlice, ...]:
    """Each slice's status and why, in the order given. Reads only."""
    names = [token_name(context.project.id, task.first_name, slice_.label) for slice_ in slices]
    target = context.target_of(task.target, session)
    published = target.published(task.target, names)
    refuse_taken(context.project.id, task, published.owners)
    tokens = [SliceToken(n, s.label, published.generations[n]) for s, n in zip(slices, names, strict=True)]
    cut = stored_cut(context, task, target, published)
    runs = {run.label: run for run in context.ledger.runs(task.name)}
    others = made_by_others(context, task, target, tokens, runs)
    held = context.ledger.inputs(task.name)
    changes = _changes(context, task, slices, held, session)
    looks, tables = _Looks(context, task), _tables(changes)
    code, left = context.code_hash(task), displaced(context.ledger, task)
    found = []
    for slice_, token in zip(slices, tokens, strict=True):
        run, generation = runs.get(slice_.label), token.generation
        if run is not None and (run.generation != generation or slice_.label in others):
            run = replace(run, intention=None, version=None)  # the table knows better, and its inputs are not on record
        inputs = held.get(slice_.label, ())
        reason = _reason(changes, slice_, inputs) if generation else None
        intention = run.intention if run is not None and generation and reason is None else None
        if intention is not None and intention.code == code and rerun_of(task) == "when_changed":
            reason = looks.reason(slice_, inputs, intention, tables)
        made = Provenance() if run is None else Provenance(run.intention, run.version)
        recut = in_doubt(cut, task, target, token, made)
        found.append(_status(task, token, run, _Present(code, reason, recut, slice_.label in left)))
    return tuple(found)


@dataclass(frozen=True)
class _Present:
    """What a slice would be made of now: by this code; `changed`: why its inputs may not be what they were. `recut`:
    whether slices that were cut differently may have overwritten it. `displaced`: whether rows of it were, by other
    slices'."""

    code: str
    changed: str | None
    recut: bool
    displaced: bool


def _status(task: Task, token: SliceToken, run: RunRecord | None, now: _Present) -> PlannedSlice:
    label, generation, code, changed = token.label, token.generation, now.code, now.changed
    if run is not None and run.failed:
        why = "it is quarantined" if run.quarantined else f"its last attempt: {_ended(run)}"
        return PlannedSlice(label, "failed", why, generation)
    published = run.intention if run is not None else None
    # What was published without its inputs is not the same as anything.
    inputs = (published.inputs or "") if published is not None and changed is None else ""
    state = SliceState(label, generation, published, Intention(code, inputs), recut=now.recut, displaced=now.displaced)
    decision = decide("run", rerun_of(task), [state])
    if generation == 0:
        return PlannedSlice(label, "missing", decision.why, generation)
    if not decision.compute:
        return PlannedSlice(label, "published", decision.why, generation)
    if published is None or changed is None or now.recut:
        return PlannedSlice(label, "stale", decision.why, generation)
    why = changed if published.code == code else f"{decision.why}, and {changed}"
    return PlannedSlice(label, "stale", why, generation)


def _ended(run: RunRecord) -> str:
    return run.last_state.value if run.last_state else "unknown"


@dataclass(frozen=True)
class _Change:
    """One table's changes: as it is `now`, and for each slice the newest version that touched what the slice reads of
    it. `since` is how far back the log was read; `lost`: it does not reach back so far."""

    now: Touched
    newest: Mapping[str, int]
    since: int
    lost: bool


def _reason(changes: Mapping[str, _Change | None], slice_: Slice, held: Sequence[InputRecord]) -> str | None:
    """Why the inputs of a published slice may not be what they were; None if the logs show that they are."""
    if not held:
        return "there is no record of which versions of its inputs it read"
    pinned = {record.name: record for record in held if record.kind == TABLE}
    for table, pin in sorted(pinned.items()):
        change, version = changes.get(table), pin.version
        if change is None or version is None:
            return f"its input {table} cannot be compared"
        if change.now.is_another(version, pin.identity):
            return (
                f"its input {table} was recreated, or replaced by an older copy, since version {version} of it was read"
            )
        if change.newest.get(slice_.label, -1) > version or (change.lost and version < change.since):
            return f"its input {table} changed since version {version}"
    unversioned = [record for record in held if record.kind != TABLE and record.identity is None]
    leaves = [Leaf(record.kind, record.name, None) for record in unversioned]
    return (what_changed(leaves, ()) or NO_VERSION) if unversioned else None


def _tables(changes: Mapping[str, _Change | None]) -> frozenset[str]:
    """What a query plan's leaves call the tables whose logs were read."""
    return frozenset(change.now.name for change in changes.values() if change is not None)


def _outside(leaves: Iterable[InputRecord | Leaf], tables: frozenset[str]) -> frozenset[tuple[str, str | None]]:
    """The leaves that belong to none of the pinned tables: no log has their changes."""
    return frozenset(
        (leaf.kind, leaf.identity)
        for leaf in leaves
        if leaf.kind not in _HARMLESS and leaf.kind != TABLE and leaf.name not in tables
    )


class _Looks:
    """What slices depend on beside their tables, from plans that are built when they are asked for."""

    def __init__(self, context: RunContext, task: Task) -> None:
        self._context, self._task = context, task
        self._one: Computed | None = None

    def reason(
        self, slice_: Slice, held: Sequence[InputRecord], published: Intention, tables: frozenset[str]
    ) -> str | None:
        """Why a slice, whose tables are as they were, is stale all the same; None if it is not."""
        beside = _outside(held, tables)
        try:
            if not has_plan(held) and has_plan(self._leaves(slice_)):
                return EARLIER
            alike = self._task.sql is not None or not self._task.takes_run
            if not beside or (alike and _outside(self._leaves(slice_), tables) == beside):
                return None
            computed = self._computed(slice_)
        except TwiceError as error:
            return f"its plan cannot be made now: {error.what}"
        present, because = computed.intentions[slice_.label], computed.because.get(slice_.label)
        return difference(SliceState(slice_.label, 1, published, present, because))

    def _leaves(self, slice_: Slice) -> tuple[Leaf, ...]:
        """Those of one slice: of this one, unless another was asked for before."""
        self._one = self._one or self._computed(slice_)
        (leaves,) = self._one.leaves.values()
        return leaves

    def _computed(self, slice_: Slice) -> Computed:
        plan = make_write_plan(self._context.project.id, self._task, (slice_,))
        with self._context.session() as session:
            return compute(self._context, self._task, plan, Pins(self._context, session))


def _changes(
    context: RunContext, task: Task, slices: Sequence[Slice], held: Mapping[str, Sequence[InputRecord]], session: Any
) -> dict[str, _Change | None]:
    """For every table that one of the slices was pinned to, declared or not."""
    oldest: dict[str, int] = {}
    wanted = {slice_.label for slice_ in slices}
    for label, records in held.items():
        for record in records if label in wanted else ():
            if record.kind == TABLE and record.version is not None:
                oldest[record.name] = min(record.version, oldest.get(record.name, record.version))
    declared: dict[str, list[Read]] = {}
    for source in task.inputs.values():
        declared.setdefault(str(context.project.located(source.table)), []).append(source)

    def open_target(table: TableName) -> Target:
        return context.target_of(table, session)

    return {
        name: _change(open_target, task, slices, declared.get(name, [Read(TableName.parse(name))]), since)
        for name, since in oldest.items()
    }


def _change(
    open_target: Callable[[TableName], Target], task: Task, slices: Sequence[Slice], reads: Sequence[Read], since: int
) -> _Change | None:
    """A table that is read twice, cut in two ways, is touched where one of them is."""
    newest: dict[str, int] = {}
    now, lost = None, False
    for source in reads:
        now = open_target(source.table).touched(source.table, since, source.by)
        if now is None:
            return None
        lost = lost or now.spans is None
        for label, at in newest_touch(task, slices, source, now).items():
            newest[label] = max(at, newest.get(label, -1))
    assert now is not None, "every table that was pinned is read"
    return _Change(now, newest, now.version if lost else since, lost)
