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
from twice.core.lineage import has_plan
from twice.core.ports import FUNCTION, PLAN, Engine, Leaf, NeedsEngine
from twice.core.results.run import Outcome, RunRequest, RunResult, SliceResult
from twice.core.scope import Whole
from twice.core.slice import Slice
from twice.core.table.token import Intention
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import TwiceError
from twice.runtime.context import RunContext
from twice.runtime.run.attempt import releasing_on_interrupt
from twice.runtime.run.chain import Selection, TaskEnd, quiet
from twice.runtime.run.explain import Explanation
from twice.runtime.run.run_many import chain_of_date, with_lookback
from twice.runtime.run.send_effects import effect_ends
from twice.runtime.staleness.plans import outside
from twice.runtime.staleness.slice_status import JudgedSlice, judged_slices
from twice.runtime.table.assign import names_of
from twice.runtime.table.foreign_changes import changed_by_others
from twice.runtime.table.taken_back import may_hold_others
from twice.runtime.write_plan import make_write_plan

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
    of it is looked at before anything is recorded."""

    def look(task: Task, slices: tuple[Slice, ...]) -> tuple[RunResult, ...]:
        if slices and _looks(context, task, slices) is None:
            raise NeedsEngine(task.name)
        return ()

    def record(task: Task, slices: tuple[Slice, ...]) -> tuple[RunResult, ...]:
        found = _looks(context, task, slices) if slices else _Found((), None)
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
    watched = (*(table.watch for table in task.tables.values()), *(files.watch for files in task.files.values()))
    if not all(watched):
        return None
    found = _looks(context, task, with_lookback(task, (slice_,), "run"))
    if found is None:
        return None
    held = context.ledger.inputs(task.name, [look.status.label for look in found.looks])
    return tuple(
        Explanation(
            task.name,
            str(task.target),
            task.write.name,
            look.status.label,
            look.status.generation,
            found.version,
            compute=False,
            why=look.status.why,
            leaves=tuple(
                Leaf(record.kind, record.name, record.identity, record.version)
                for record in held.get(look.status.label, ())
                if record.kind not in NO_LEAVES
            ),
            suspicions=(),
        )
        for look in found.looks
    )


@dataclass(frozen=True)
class _Found:
    """Slices that are shown to be right, and the version of their table at which they are."""

    looks: tuple[JudgedSlice, ...]
    version: int | None


def _looks(context: RunContext, task: Task, slices: tuple[Slice, ...]) -> _Found | None:
    """None where not each of them is shown to be published and right."""
    if not isinstance(task.scope, TimeScope | Whole):
        return None  # how far its source goes is a question to the source
    recipe = context.recipe(task)
    if recipe is None or _is_undecided(context, task, {slice_.label for slice_ in slices}):
        return None
    try:
        looks = judged_slices(context, task, slices, None, _SameRecipe(recipe))
        if any(look.differs is not None or look.status.status != "published" for look in looks):
            return None
        target, plan = context.target_of(task.target, None), make_write_plan(context.project.id, task, slices)
        published = target.published(task.target, plan.compared)
        if may_hold_others(context, task, published.owners):
            return None
        others = any(changed_by_others(context, task, target, plan).found.values())
    except (NeedsEngine, OSError, TwiceError) as needs:
        _log.debug("%s: not answered from the log: %s", task.name, needs)
        return None
    return None if others else _Found(looks, published.version)


def _is_undecided(context: RunContext, task: Task, labels: set[str]) -> bool:
    """Whether the full way has something to settle, to assign or to send before it looks."""
    ledger = context.ledger
    if ledger.unassigned.any(names_of(task)) or ledger.quarantined(task.name, sorted(labels)):
        return True
    attempts = (*ledger.open_attempts(task.name), *ledger.undiscarded(task.name))
    if any(each.label in labels for attempt in attempts for each in attempt.slices):
        return True
    return any(ledger.outbox.in_state(state, task.name) for state in _WAITING if task.effects)


@dataclass(frozen=True)
class _SameRecipe:
    """What the task's function makes its plan of is what it was: so is the plan, which need not be made."""

    recipe: str

    def asked(self, task: Task) -> bool:  # noqa: ARG002 - also of what stays: that it differs is said by the full way
        return True

    def reason(
        self, slice_: Slice, held: Sequence[InputRecord], published: Intention, tables: frozenset[str]
    ) -> str | None:
        """None, or NeedsEngine: what differs, only the plan can say."""
        made = {record.identity for record in held if record.kind == RECIPE}
        if made != {self.recipe}:
            raise NeedsEngine(f"{slice_.label} was not published, or found right, by the function as it is now")
        beside = outside(held, tables)
        unknown = sorted(kind for kind, _ in beside if kind not in (PLAN, FUNCTION))
        of_catalog = any(record.kind == FUNCTION and "of the catalog" in record.name for record in held)
        if unknown or of_catalog or not has_plan(held) or published.inputs is None:
            raise NeedsEngine(f"{slice_.label} reads what no log knows: {', '.join(unknown) or 'the catalog'}")
        return None


def _recorded(context: RunContext, task: Task, found: _Found) -> tuple[RunResult, ...] | None:
    """Each slice is an attempt that found nothing to do, as on the full way; None if another attempt has a slice now:
    the full way waits for it, or says so."""
    runs = context.ledger.runs_of(task.name, [look.status.label for look in found.looks])
    results = []
    for look in found.looks:
        attempt = uuid4().hex
        with releasing_on_interrupt(context, attempt):
            if not _record(context, task, look, found.version, attempt):
                return None
        status, run = look.status, runs.get(look.status.label)
        rows, fingerprint = (run.rows, run.fingerprint) if run is not None else (None, None)
        slices = (SliceResult(status.label, status.generation, rows, fingerprint),)
        effects = effect_ends(context, task, [status.label], attempt)
        results.append(
            RunResult(task.name, Outcome.ALREADY, slices, attempt, status.why, found.version, effects=effects)
        )
    return tuple(results)


def _record(context: RunContext, task: Task, look: JudgedSlice, version: int | None, attempt: str) -> bool:
    """False if the slice is another attempt's now. Dying in here leaves an attempt that has staged nothing."""
    label, ledger = look.status.label, context.ledger
    claim = ledger.claim(ClaimRequest(task.name, [label], attempt, "run", context.holder), context.lease)
    if not isinstance(claim, Claim):
        return False
    ledger.fix(claim, {label: look.status.generation})
    pinned = [InputRecord(label, TABLE, name, at.id, at.version) for name, at in look.versions.items()]
    made = InputRecord(label, RECIPE, "function", context.recipe(task), None)
    facts = Facts(inputs=(*pinned, made), why=look.status.why, version=version)
    ledger.close_attempt(attempt, AttemptState.UNCHANGED, facts)
    ledger.discarded(attempt)
    return True


class _NoEngine:
    def fresh(self) -> None:
        """What reads logs alone needs no session."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsEngine(name)


NO_ENGINE = cast(Engine, _NoEngine())
"""Whatever is asked of it needs an engine."""
