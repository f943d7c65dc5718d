"""What is the status of many slices? From the ledger and the inputs' logs, without building a query plan for each.

The answer is `decide`'s, as for a run; what the inputs of now are is read from the commits that their tables had since.
What a slice depends on beside its tables (files, the constants of its query plan, functions) is in no log: the query
plan of one slice is built for it, and is good for all, since a function that does not ask for the run cannot know one
slice from another. Where it does ask, or where the one does not agree, each slice's own is built, as a run would.
In doubt a slice counts as stale: its run looks closer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.backfill.plan import PlannedSlice
from twice.core.ledger.record import NO_LEAVES, TABLE, InputRecord, RunRecord
from twice.core.lineage import NO_VERSION, source_name, what_changed
from twice.core.ports import Leaf, Target, Touched
from twice.core.results.summary import run_label
from twice.core.slice import Slice
from twice.core.table.token import Intention, SliceToken, token_name
from twice.core.task import Read, TableName, Task
from twice.runtime.context import RunContext
from twice.runtime.inputs.declared import DeclaredInputs
from twice.runtime.staleness.code_change import code_changes
from twice.runtime.staleness.decide import SliceState, decide, difference, rerun_of
from twice.runtime.staleness.plans import BuiltPlans, Plans
from twice.runtime.staleness.touched import newest_touch
from twice.runtime.table.cut import StoredCut, stored_cut
from twice.runtime.table.displaced_rows import displaced
from twice.runtime.table.owner import refuse_taken
from twice.runtime.table.provenance import Provenance
from twice.runtime.table.same_table import made_by_others
from twice.runtime.table.taken_back import taken_back


@dataclass(frozen=True)
class JudgedSlice:
    """One slice, judged by the tables' logs: `status` is what is planned for it; `differs` why a run would
    compute it, whatever the task's policy says of slices that are published; None if it is shown to be the same.
    `versions`: of each table that it reads, the one up to which that is known, with the table's id."""

    status: PlannedSlice
    differs: str | None
    versions: Mapping[str, Touched]


NOTHING_KNOWN: Mapping[Slice, PlannedSlice] = {}


def slice_statuses(
    context: RunContext,
    task: Task,
    slices: Sequence[Slice],
    session: Any,
    known: Mapping[Slice, PlannedSlice] = NOTHING_KNOWN,
) -> tuple[PlannedSlice, ...]:
    """Each slice's status and why, in the order given. Reads only. `known`: of slices that need not be asked for."""
    rest = [slice_ for slice_ in slices if slice_ not in known]
    present = _slices_now(context, task, rest, session, BuiltPlans(context, task)) if rest else ()
    found = {slice_: _status(task, token, run, now) for slice_, (token, run, now, _) in zip(rest, present, strict=True)}
    return tuple(known[slice_] if slice_ in known else found[slice_] for slice_ in slices)


def judged_slices(
    context: RunContext, task: Task, slices: Sequence[Slice], session: Any, plans: Plans
) -> tuple[JudgedSlice, ...]:
    """The same, with what it was found by. Reads only."""
    return tuple(
        JudgedSlice(_status(task, token, run, now), _differs(token, run, now), _versions(token.label, evidence))
        for token, run, now, evidence in _slices_now(context, task, slices, session, plans)
    )


def _slices_now(
    context: RunContext, task: Task, slices: Sequence[Slice], session: Any, plans: Plans
) -> Iterator[tuple[SliceToken, RunRecord | None, _Present, _Evidence]]:
    """How each slice stands now: its token, its run, and what is to be judged by."""
    context.progress.begins("look", run_label(task.name, [slice_.label for slice_ in slices]))
    evidence, declared = _read(context, task, slices, session), DeclaredInputs(context.places, task)
    asked = plans if plans.asked(task) else None
    for slice_, token in zip(slices, evidence.tokens, strict=True):
        changed = _why_changed(slice_, token, evidence, declared, asked)
        yield token, evidence.runs.get(token.label), _now(token, evidence, changed), evidence


@dataclass(frozen=True)
class _Evidence:
    """What table, ledger and logs say of the slices, before any query plan is made: each slice's token, in the order
    asked for, and by their labels the last run and the inputs it read. `changes` of each table that one of them read,
    `unwatched` those that make no slice stale. `code`: the hash of the code as it is now; `code_changes`: what is
    other in it, by the hash of what was published. `displaced`: the labels of slices that lost rows to others;
    `taken_back`: of those whose table was another task's since."""

    tokens: tuple[SliceToken, ...]
    runs: Mapping[str, RunRecord]
    inputs: Mapping[str, Sequence[InputRecord]]
    changes: Mapping[str, _Change | None]
    unwatched: frozenset[str]
    code: str
    code_changes: Mapping[str, str]
    cut: StoredCut
    displaced: Collection[str]
    taken_back: Collection[str]


def _read(context: RunContext, task: Task, slices: Sequence[Slice], session: Any) -> _Evidence:
    names = [token_name(context.project.id, task.first_name, slice_.label) for slice_ in slices]
    target = context.target_of(task.target, session)
    published = target.published(task.target, names)
    refuse_taken(context.project.id, task, published.owners)
    tokens = tuple(SliceToken(n, s.label, published.generations[n]) for s, n in zip(slices, names, strict=True))
    cut = stored_cut(context, task, target, published)
    labels = [slice_.label for slice_ in slices]
    recorded = context.ledger.runs_of(task.name, labels)
    others = made_by_others(context, task, target, tokens, recorded)
    held = context.ledger.inputs(task.name, labels)
    changes = _changes(context, task, slices, held, session)
    unwatched, code, left = _not_watched(context, task, changes), context.code_of(task), displaced(context.ledger, task)
    other_code = code_changes(context.ledger, task, code, (run.intention for run in recorded.values()))
    runs = _as_published(recorded, tokens, others)
    made = [(token, _made(runs.get(token.label))) for token in tokens]
    back = taken_back(context, task, target, made, published.owners)
    return _Evidence(tokens, runs, held, changes, unwatched, code.hash, other_code, cut, left, back)


def _as_published(
    recorded: Mapping[str, RunRecord], tokens: Iterable[SliceToken], others: Collection[str]
) -> dict[str, RunRecord]:
    """The runs by label; without intention and version where the table holds another publish than the ledger's, whose
    inputs are not on record. `others`: slices that others have published."""
    runs = dict(recorded)
    for token in tokens:
        run = runs.get(token.label)
        if run is not None and (run.generation != token.generation or token.label in others):
            runs[token.label] = replace(run, intention=None, version=None)
    return runs


def _why_changed(
    slice_: Slice, token: SliceToken, evidence: _Evidence, declared: DeclaredInputs, plans: Plans | None
) -> str | None:
    """Why what a published slice reads may not be what it was; None if it is, or if the slice is not published. Reads
    declared files, and asks `plans`, if they are given, where all else is the same."""
    run, inputs = evidence.runs.get(slice_.label), evidence.inputs.get(slice_.label, ())
    if not token.generation:
        return None
    why = _reason(evidence.changes, slice_, inputs, evidence.unwatched) or declared.change(slice_, inputs)
    intention = run.intention if run is not None and why is None else None
    if intention is not None and intention.code == evidence.code and plans is not None:
        return plans.reason(slice_, inputs, intention, _tables(evidence.changes))
    return why


def _now(token: SliceToken, evidence: _Evidence, changed: str | None) -> _Present:
    """Pure. `changed`: why its inputs may not be what they were."""
    recut = evidence.cut.doubts(token.generation, _made(evidence.runs.get(token.label)).version)
    lost, back = token.label in evidence.displaced, token.label in evidence.taken_back
    return _Present(evidence.code, evidence.code_changes, changed, recut, lost, back)


def _made(run: RunRecord | None) -> Provenance:
    return Provenance() if run is None else Provenance(run.intention, run.version)


@dataclass(frozen=True)
class _Present:
    """How one slice stands now. `code`: the hash of the task's code; `code_changes`: what is other in it than in the
    code of each hash that was published; `changed`: why the slice's inputs may not be what they were, None if they are.
    `recut`: slices that were cut differently may have overwritten it; `displaced`: it lost rows to other slices;
    `taken_back`: the table was another task's since it was published."""

    code: str
    code_changes: Mapping[str, str]
    changed: str | None
    recut: bool
    displaced: bool
    taken_back: bool


def _status(task: Task, token: SliceToken, run: RunRecord | None, now: _Present) -> PlannedSlice:
    label, generation, code, changed = token.label, token.generation, now.code, now.changed
    if run is not None and run.failed:
        last = run.last_state.value if run.last_state else "unknown"
        why = "it is quarantined" if run.quarantined else f"its last attempt: {last}"
        return PlannedSlice(label, "failed", why, generation)
    state = _state(token, run, now)
    published = state.published
    decision = decide("run", rerun_of(task), [state])
    if generation == 0:
        return PlannedSlice(label, "missing", decision.why, generation)
    if not decision.compute:
        return PlannedSlice(label, "published", decision.why, generation)
    if published is None or changed is None or state.overwritten:
        return PlannedSlice(label, "stale", decision.why, generation)
    why = changed if published.code == code else f"{decision.why}, and {changed}"
    return PlannedSlice(label, "stale", why, generation)


def _state(token: SliceToken, run: RunRecord | None, now: _Present) -> SliceState:
    published = run.intention if run is not None else None
    # What was published without its inputs is not the same as anything.
    inputs = (published.inputs or "") if published is not None and now.changed is None else ""
    other = now.code_changes.get(published.code) if published is not None else None
    present, lost, back = Intention(now.code, inputs), now.displaced, now.taken_back
    return SliceState(token.label, token.generation, published, present, None, now.recut, lost, back, other)


def _differs(token: SliceToken, run: RunRecord | None, now: _Present) -> str | None:
    if not token.generation:
        return "it was never published"
    if run is None or run.failed or now.displaced:
        return "its last attempt failed, or rows of it were displaced, or there is no record of it"
    return now.changed or difference(_state(token, run, now))


def _versions(label: str, evidence: _Evidence) -> Mapping[str, Touched]:
    tables = {record.name for record in evidence.inputs.get(label, ()) if record.kind == TABLE}
    return {name: change.now for name in sorted(tables) if (change := evidence.changes.get(name)) is not None}


@dataclass(frozen=True)
class _Change:
    """One table's changes: as it is `now`, and for each slice the newest version that touched what the slice reads of
    it. `since` is how far back the log was read; `lost`: it does not reach back so far."""

    now: Touched
    newest: Mapping[str, int]
    since: int
    lost: bool


def _not_watched(context: RunContext, task: Task, changes: Mapping[str, _Change | None]) -> frozenset[str]:
    """The tables whose changes make no slice stale, by their own names and by those that query plans call them."""
    tables = {str(context.project.located(each.table)) for each in task.tables.values() if not each.watch}
    named = (changes.get(table) for table in tables)
    return frozenset(tables | {change.now.name for change in named if change is not None})


def _reason(
    changes: Mapping[str, _Change | None], slice_: Slice, held: Sequence[InputRecord], ignored: frozenset[str]
) -> str | None:
    """Why the inputs of a published slice may not be what they were; None if the logs show that they are."""
    if not held:
        return "there is no record of which versions of its inputs it read"
    held = [record for record in held if source_name(record.name) not in ignored]
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
    unversioned = [record for record in held if record.kind not in NO_LEAVES and record.identity is None]
    leaves = [Leaf(record.kind, record.name, None) for record in unversioned]
    if not unversioned:
        return None
    found = what_changed(leaves, ())
    return NO_VERSION if found is None else found.why


def _tables(changes: Mapping[str, _Change | None]) -> frozenset[str]:
    """What a query plan's leaves call the tables whose logs were read."""
    return frozenset(change.now.name for change in changes.values() if change is not None)


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
    for source in task.tables.values():
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
