"""Backfill: classify, freeze, store, and later pause, resume or cancel. The work itself is in worker.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twice.core.backfill.plan import (
    BackfillPlan,
    BackfillRequest,
    PlannedBatch,
    PlannedSlice,
    SliceStatus,
    batch_size,
    neighbours,
)
from twice.core.backfill.result import BackfillRecord, BackfillState, BatchState
from twice.core.hints import command, hint, option
from twice.core.ports import Quarantine, RunLedger
from twice.core.slice import Slice, labels_of
from twice.core.table.token import Kind
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.result.pins import Pins, open_input
from twice.runtime.run.run_task import refuse_kind
from twice.runtime.staleness.correction import in_slice_order
from twice.runtime.staleness.downstream import readers
from twice.runtime.staleness.slice_status import NOTHING_KNOWN, slice_statuses

S = BackfillState


def plan_backfill(
    context: RunContext,
    request: BackfillRequest,
    name: str | None = None,
    known: Mapping[Slice, PlannedSlice] = NOTHING_KNOWN,
) -> BackfillPlan:
    """Which slices, why each, in which batches. Reads only; the same question later may have another answer, so the
    plan that is stored is the one that is carried out. `known`: slices whose status was found before."""
    task = context.project.task(request.task)
    slices = asked_for(task, request)
    session = context.engine.fresh()
    found = dict(zip(slices, slice_statuses(context, task, slices, session, known), strict=True))
    chosen = {slice_: planned for slice_, planned in found.items() if planned.status in request.only}
    left_out = Counter(planned.status for slice_, planned in found.items() if slice_ not in chosen)
    size, notes = _size(context, task, request, tuple(chosen), session)
    notes += _stale_left_out(found, chosen)
    batches = _batches(task, request, chosen, size)
    if request.downstream:
        more, reader_notes = readers(context, request, batches, slices, session)
        batches, notes = [*batches, *more], [*notes, *reader_notes]
    batches, ordered = in_slice_order(context, batches)
    name = name or _free_name(context, request)
    return BackfillPlan(name, request, tuple(batches), dict[SliceStatus, int](left_out), (*notes, *ordered))


def _stale_left_out(found: Mapping[Slice, PlannedSlice], chosen: Mapping[Slice, PlannedSlice]) -> list[str]:
    """Somebody named these slices by the range: that they are not right, and not made right, is noted by name."""
    left = [slice_ for slice_, planned in found.items() if planned.status == "stale" and slice_ not in chosen]
    if not left:
        return []
    what = f"stale and not asked for: {labels_of(left)} ({found[left[0]].why})"
    return [hint("{}; {} computes them too", what, option("only", ("missing", "failed", "stale")))]


Planned = Callable[[], BackfillPlan]


def start(
    ledger: RunLedger, request: BackfillRequest, planned: Planned, name: str | None = None
) -> tuple[BackfillRecord, BackfillPlan | None]:
    """Freeze and store a plan, or go on with the one that is there: a second start of the same backfill resumes it.
    The plan is given only where it is new. Dying before it is stored leaves nothing; after it, a backfill to resume."""
    known = refuse_other(ledger, request, name) if name is not None else _unfinished(ledger, request)
    if known is not None:
        return resume(ledger, known.name), None
    return _stored(ledger, planned())


def start_if_any(
    ledger: RunLedger, request: BackfillRequest, planned: Planned
) -> tuple[BackfillRecord, BackfillPlan | None] | None:
    """As `start`, unless there is nothing to do: then nothing is stored."""
    known = _unfinished(ledger, request)
    if known is not None:
        return resume(ledger, known.name), None
    plan = planned()
    return _stored(ledger, plan) if plan.batches else None


def ended_at_once(ledger: RunLedger, name: str) -> BackfillRecord | None:
    """A backfill without a batch ends where it begins. None for another one: that is a worker's. A second call changes
    nothing."""
    if find(ledger, name).total:
        return None
    ledger.backfills.finish(name)
    return find(ledger, name)


def _stored(ledger: RunLedger, plan: BackfillPlan) -> tuple[BackfillRecord, BackfillPlan | None]:
    book, request = ledger.backfills, plan.request
    stored = book.create(plan)
    _lift(ledger, [(name, slice_.label) for name, slice_ in plan.slices if slice_.status == "failed"])
    record = book.record(plan.name)
    assert record is not None, plan.name
    if not stored and record.request != request:
        raise UsageError(f"a backfill {plan.name} was started just now by another process", fix="Start again.")
    return record, plan if stored else None


def refuse_other(ledger: RunLedger, request: BackfillRequest, name: str) -> BackfillRecord | None:
    """The backfill of this name, if there is one. Raises UsageError if it was asked for something else."""
    known = ledger.backfills.record(name)
    if known is not None and known.request != request:
        raise UsageError(
            f"there is a backfill {known.name} already, and it was asked for something else",
            now="Nothing was started.",
            fix=hint("See it with {}; give this one another {}.", f"twice backfill show {known.name}", option("name")),
        )
    return known


def find(ledger: RunLedger, name: str) -> BackfillRecord:
    record = ledger.backfills.record(name)
    if record is None:
        raise UsageError(f"there is no backfill {name!r}", fix="See them all with twice backfill list.")
    return record


def resume(ledger: RunLedger, name: str) -> BackfillRecord:
    """Go on with a backfill: paused or cancelled it runs again, and what failed is to be tried again. What is done
    stays done. A second call changes nothing."""
    record = find(ledger, name)
    book = ledger.backfills
    bad = book.batches(name, BatchState.FAILED)
    _lift(ledger, [(batch.task, slice_.label) for batch in bad for slice_ in batch.slices])
    book.move(name, (S.PAUSED, S.CANCELLED), S.RUNNING)
    book.again(name)
    return book.record(name) or record


def _lift(ledger: Quarantine, slices: Sequence[tuple[str, str]]) -> None:
    """Whoever starts or resumes a backfill decides, as a person, that what is quarantined is tried again."""
    for task in sorted({name for name, _ in slices}):
        ledger.lift(task, [label for name, label in slices if name == task])


def pause(ledger: RunLedger, name: str) -> BackfillRecord:
    """No further batch is begun; those at work finish."""
    return _stopped(ledger, name, S.PAUSED, (S.RUNNING,))


def cancel(ledger: RunLedger, name: str) -> BackfillRecord:
    """As pause, for good: only `resume` brings it back."""
    return _stopped(ledger, name, S.CANCELLED, (S.RUNNING, S.PAUSED))


def _stopped(ledger: RunLedger, name: str, state: BackfillState, before: Sequence[BackfillState]) -> BackfillRecord:
    record = find(ledger, name)
    moved = ledger.backfills.move(name, before, state)
    if not moved and record.state is not state:
        raise UsageError(f"the backfill {name} is {record.state.value}", now="Nothing was changed.")
    return find(ledger, name)


def asked_for(task: Task, request: BackfillRequest) -> tuple[Slice, ...]:
    """Every slice of the range, both ends included. Raises UsageError where the request makes no sense."""
    scope = task.scope
    if not isinstance(scope, TimeScope):
        fix = (
            hint("To compute it again: {}.", command("restate", task.name))
            if task.write.restatable and scope.only.label == "all"
            else f"To read rows again, set its mark back: twice mark reset {task.name} --to …."
        )
        raise UsageError("this task's work is not cut by time: it has no history to fill", where=task.name, fix=fix)
    if "published" in request.only and not request.restate:
        raise UsageError(
            "published slices are computed again only on purpose",
            where=task.name,
            fix=hint("Use {}.", option("restate", True)),
        )
    refuse_kind(task, "restate" if request.restate else "run")
    first, last = scope.slice_of(request.first), scope.slice_of(request.last)
    if last.start < first.start:
        raise UsageError(
            hint("{} is after {}", option("from", request.first), option("to", request.last)),
            where=task.name,
            fix="Both ends are included.",
        )
    return tuple(scope.through(first, last))


def _batches(task: Task, request: BackfillRequest, chosen: dict[Slice, PlannedSlice], size: int) -> list[PlannedBatch]:
    groups = neighbours(chosen, size)
    if request.reverse:
        groups.reverse()
    kind: Kind = "restate" if request.restate else "run"
    return [
        PlannedBatch(number, task.name, tuple(chosen[slice_] for slice_ in group), kind)
        for number, group in enumerate(groups, start=1)
    ]


def _size(
    context: RunContext, task: Task, request: BackfillRequest, slices: tuple[Slice, ...], session: Any
) -> tuple[int, list[str]]:
    """How many slices a batch takes, and what keeps it from taking more."""
    if request.batch == "off" or not slices:
        return 1, []
    why = why_single(context, task, session)
    if why is not None:
        asked = request.batch != "auto" or (isinstance(task.scope, TimeScope) and task.scope.batch)
        return 1, [f"one slice per commit: {why}"] if asked else []
    rows = _rows_per_slice(context, task, slices, session) if request.batch == "auto" else None
    return batch_size(request.batch, rows), []


def why_single(context: RunContext, task: Task, session: Any) -> str | None:
    """What prevents computing several slices of this task at once; None if nothing does."""
    if not isinstance(task.scope, TimeScope) or not task.scope.batch:
        return f"{task.name} has no batch=True on its scope"
    if task.write.kind != "replace":
        return f"{task.write.name}() publishes slices one by one"
    return context.target_of(task.target, session).one_slice_only(task.target)


def _rows_per_slice(context: RunContext, task: Task, slices: tuple[Slice, ...], session: Any) -> float | None:
    """What a slice reads, else what it gave when it was last published. None where it is not known."""
    pins = Pins(context, session)
    cut = [name for name, source in task.tables.items() if source.by is not None]
    counts = [context.engine.estimate(open_input(task, name, slices, pins)) for name in cut]
    if counts:
        return max(counts) / len(slices)
    known = [run.rows for run in context.ledger.runs(task.name) if run.rows is not None]
    return sum(known) / len(known) if known else None


def _unfinished(ledger: RunLedger, request: BackfillRequest) -> BackfillRecord | None:
    """The newest backfill of the same request that has something left to do."""
    same = ledger.backfills.records(request)
    return same[-1] if same and not same[-1].complete else None


def _free_name(context: RunContext, request: BackfillRequest) -> str:
    stem, number = request.default_name, 2
    name = stem
    while context.ledger.backfills.record(name) is not None:
        name, number = f"{stem}_{number}", number + 1
    return name
