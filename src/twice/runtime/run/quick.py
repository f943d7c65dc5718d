"""Already published? Answered from the tables' logs and the ledger alone, before an engine is started.

The answer is yes or nothing at all: whatever is unusual (a slice that is not right, an input without a version, a
function that may read beside its inputs, a change by others, an attempt that did not report back, an effect that waits)
leads to the full way, which asks everything. What is asked here is asked by the same functions as there.

Nothing here writes to a table. What a run records that finds nothing to do is recorded here too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, cast
from uuid import uuid4

from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import NO_LEAVES, RECIPE, TABLE, AttemptState, Claim, ClaimRequest, Facts, InputRecord
from twice.core.ports import Engine, Leaf, NeedsEngine
from twice.core.results.run import Outcome, RunRequest, RunResult, SliceResult
from twice.core.since import Since, mark_text
from twice.core.slice import Slice
from twice.core.task import Task
from twice.errors import TwiceError
from twice.runtime.context import RunContext
from twice.runtime.run.attempt import releasing_on_interrupt
from twice.runtime.run.chain import Selection, TaskEnd, quiet
from twice.runtime.run.explain import Explanation, TaskPlan, idle
from twice.runtime.run.run_many import chain_of_date, of_date, with_lookback
from twice.runtime.run.send_effects import effect_ends
from twice.runtime.staleness.plans import SameRecipe
from twice.runtime.staleness.slice_status import JudgedSlice, judged_slices
from twice.runtime.table.assign import names_of
from twice.runtime.table.cut import stored_cut
from twice.runtime.table.foreign_changes import changed_by_others
from twice.runtime.table.nothing_after import NOT_MOVED, still_nothing_after
from twice.runtime.table.owner import refuse_taken
from twice.runtime.table.same_table import made_by_others
from twice.runtime.table.stored_mark import other_cursor, stored_mark
from twice.runtime.table.taken_back import may_hold_others
from twice.runtime.write_plan import make_write_plan, tokens_in

_log = logging.getLogger("twice")

_WAITING = (EffectState.PREPARED, EffectState.RELEASED, EffectState.PENDING, EffectState.SENDING)
"""Effects that the full way would send, or settle."""


def already_published(
    context: RunContext, task: Task, slices: Sequence[Slice], request: RunRequest
) -> tuple[RunResult, ...] | None:
    """What a run of these slices finds, where it is shown that each is published and right; None where it is not.

    Dying in here leaves an attempt that looked at most, which the next look closes.
    """
    if request.kind != "run" or request.silent:
        return None
    found = _looks(context, task, with_lookback(task, tuple(slices), "run"))
    return None if found is None else _recorded(context, task, found)


def chain_already_published(context: RunContext, date_: str | None, which: Selection) -> tuple[TaskEnd, ...] | None:
    """What a chain of a date finds, where it is shown that all of it is published and right; None where it is not. All
    of it is looked at before anything is recorded, and each slice once."""
    looked: dict[tuple[str, tuple[Slice, ...]], _Found] = {}

    def look(task: Task, slices: tuple[Slice, ...]) -> tuple[RunResult, ...]:
        found = _looks(context, task, slices) if slices else _Found((), None)
        if found is None:
            raise NeedsEngine(task.name)
        looked[task.name, slices] = found
        return ()

    def record(task: Task, slices: tuple[Slice, ...]) -> tuple[RunResult, ...]:
        # Which slices these are is asked of the ledger again: another process may have added to it.
        found = looked.get((task.name, slices))
        results = None if found is None else _recorded(context, task, found)
        if results is None:
            raise NeedsEngine(task.name)
        return results

    in_turn = replace(which, parallel=1)
    try:
        chain_of_date(context, date_, look, quiet, in_turn)
        return chain_of_date(context, date_, record, quiet, in_turn)
    except NeedsEngine:
        return None


def would_stay(context: RunContext, task: Task, slice_: Slice) -> tuple[Explanation, ...] | None:
    """What `explain_run` finds, where it is shown that a run would leave each slice as it is; None where it is not, or
    where an input is not watched, of which it says more. What a slice reads is given as it was published."""
    return _staying(context, task, with_lookback(task, (slice_,), "run"))


def all_would_stay(
    context: RunContext, date_: str | None, chosen: Sequence[Task] | None = None
) -> tuple[TaskPlan, ...] | None:
    """What `explain_all` finds, where that is so of every slice of every task."""
    slices, left_out = of_date(context.project, date_, chosen)
    plans = []
    for task in context.project.in_order() if chosen is None else chosen:
        if task.name in left_out:
            plans.append(TaskPlan(task.name, left_out=left_out[task.name]))
            continue
        found = _staying(context, task, with_lookback(task, slices[task.name], "run"))
        if found is None:
            return None
        plans.append(TaskPlan(task.name, found))
    return tuple(plans)


def _staying(context: RunContext, task: Task, slices: tuple[Slice, ...]) -> tuple[Explanation, ...] | None:
    watched = (*(table.watch for table in task.tables.values()), *(files.watch for files in task.files.values()))
    if not all(watched):
        return None
    found = _looks(context, task, slices)
    if found is None:
        return None
    if isinstance(task.scope, Since):
        return tuple(idle(task, right.label, right.generation, found.version) for right in found.slices)
    held = context.ledger.inputs(task.name, [right.label for right in found.slices])
    return tuple(
        Explanation(
            task.name,
            str(task.target),
            task.write.name,
            right.label,
            right.generation,
            found.version,
            compute=False,
            why=right.why,
            leaves=tuple(
                Leaf(record.kind, record.name, record.identity, record.version)
                for record in held.get(right.label, ())
                if record.kind not in NO_LEAVES
            ),
            suspicions=(),
        )
        for right in found.slices
    )


@dataclass(frozen=True)
class _Right:
    """A slice that is shown to be right, and what is recorded of that. `mark`: of an incremental task."""

    label: str
    generation: int
    why: str
    inputs: tuple[InputRecord, ...]
    mark: str | None = None


@dataclass(frozen=True)
class _Found:
    """Slices that are shown to be right, and the version of their table at which they are."""

    slices: tuple[_Right, ...]
    version: int | None


def _looks(context: RunContext, task: Task, slices: tuple[Slice, ...]) -> _Found | None:
    """None where not each of them is shown to be published and right."""
    if _is_undecided(context, task, {slice_.label for slice_ in slices}):
        return None
    try:
        right = _nothing_new(context, task) if isinstance(task.scope, Since) else _same(context, task, slices)
        if right is None:
            return None
        target, plan = context.target_of(task.target, None), make_write_plan(context.project.id, task, slices)
        published = target.published(task.target, plan.compared)
        if may_hold_others(context, task, published.owners):
            return None
        others = any(changed_by_others(context, task, target, plan).found.values())
    except (NeedsEngine, OSError, TwiceError) as needs:
        _log.debug("%s: not answered from the log: %s", task.name, needs)
        return None
    return None if others else _Found(right, published.version)


def _same(context: RunContext, task: Task, slices: tuple[Slice, ...]) -> tuple[_Right, ...] | None:
    """Of slices that are computed from their inputs: code and inputs are what they were."""
    plans = SameRecipe.of(context, task)
    if plans is None:
        return None
    looks = judged_slices(context, task, slices, None, plans)
    if any(look.differs is not None or look.status.status != "published" for look in looks):
        return None
    return tuple(_right(look, plans.recipe) for look in looks)


def _right(look: JudgedSlice, recipe: str) -> _Right:
    found = look.status
    pinned = [InputRecord(found.label, TABLE, name, at.id, at.version) for name, at in look.versions.items()]
    made = InputRecord(found.label, RECIPE, "function", recipe, None)
    return _Right(found.label, found.generation, found.why, (*pinned, made))


def _nothing_new(context: RunContext, task: Task) -> tuple[_Right, ...] | None:
    """Of an incremental task: its source holds what it held when a run found nothing after this mark."""
    scope, target = task.scope, context.target_of(task.target, None)
    assert isinstance(scope, Since), task.name
    plan = make_write_plan(context.project.id, task, (scope.only,))
    published = target.published(task.target, plan.compared)
    refuse_taken(context.project.id, task, published.owners)
    (token,) = tokens_in(plan, published.generations)
    runs = context.ledger.runs_of(task.name, [token.label])
    run = runs.get(token.label)
    if run is None or run.failed or not token.generation or run.generation != token.generation:
        return None
    other_table = made_by_others(context, task, target, [token], runs)
    if other_table or stored_cut(context, task, target, published).doubts(token.generation, run.version):
        return None
    if other_cursor(context, task, scope, token.generation, target) is not None:
        return None
    seen = still_nothing_after(context, task, token.generation)
    mark = stored_mark(context.ledger, task, scope, token.generation)
    if not seen or mark is None:
        return None
    return (_Right(token.label, token.generation, NOT_MOVED, seen, mark_text(mark)),)


def _is_undecided(context: RunContext, task: Task, labels: set[str]) -> bool:
    """Whether the full way has something to settle, to assign or to send before it looks."""
    ledger = context.ledger
    if ledger.unassigned.any(names_of(task)) or ledger.quarantined(task.name, sorted(labels)):
        return True
    attempts = (*ledger.open_attempts(task.name), *ledger.undiscarded(task.name))
    if any(each.label in labels for attempt in attempts for each in attempt.slices):
        return True
    return any(ledger.outbox.in_state(state, task.name) for state in _WAITING if task.effects)


def _recorded(context: RunContext, task: Task, found: _Found) -> tuple[RunResult, ...] | None:
    """Each slice is an attempt that found nothing to do, as on the full way; None if another attempt has a slice now:
    the full way waits for it, or says so."""
    runs = context.ledger.runs_of(task.name, [right.label for right in found.slices])
    results = []
    for right in found.slices:
        attempt = uuid4().hex
        with releasing_on_interrupt(context, attempt):
            if not _record(context, task, right, found.version, attempt):
                return None
        run = runs.get(right.label)
        rows, fingerprint = (run.rows, run.fingerprint) if run is not None else (None, None)
        slices = (SliceResult(right.label, right.generation, rows, fingerprint),)
        outcome = Outcome.ALREADY if right.mark is None else Outcome.NOTHING_NEW
        result = RunResult(task.name, outcome, slices, attempt, right.why, found.version)
        effects = effect_ends(context, task, [right.label], attempt)
        results.append(replace(result, mark=right.mark, effects=effects))
    return tuple(results)


def _record(context: RunContext, task: Task, right: _Right, version: int | None, attempt: str) -> bool:
    """False if the slice is another attempt's now. Dying in here leaves an attempt that has staged nothing."""
    label, ledger = right.label, context.ledger
    claim = ledger.claim(ClaimRequest(task.name, [label], attempt, "run", context.holder), context.lease)
    if not isinstance(claim, Claim):
        return False
    if right.mark is None:  # of a mark the full way fixes nothing either, before it knows what to read
        ledger.fix(claim, {label: right.generation})
    ledger.close_attempt(attempt, AttemptState.UNCHANGED, Facts(inputs=right.inputs, why=right.why, version=version))
    ledger.discarded(attempt)
    return True


class _NoEngine:
    def fresh(self) -> None:
        """What reads logs alone needs no session."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsEngine(name)


NO_ENGINE = cast(Engine, _NoEngine())
"""Whatever is asked of it needs an engine."""
