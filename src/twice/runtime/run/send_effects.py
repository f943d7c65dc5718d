"""The effects of a run: prepared with its publish, sent after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twice.core.failure.interruption import being_handled, interruption
from twice.core.failure.root_cause import cause_line
from twice.core.ledger.outbox import PreparedEffect, PublishedGeneration, prepare
from twice.core.results.run import EffectEnd, RunResult
from twice.core.task import Task
from twice.errors import RunError, TwiceError
from twice.runtime.context import RunContext
from twice.runtime.effects.send import send_pending
from twice.runtime.run.attempt import Attempt, StagedRun, raise_interrupt


def effects_to_prepare(attempt: Attempt, ready: StagedRun) -> tuple[PreparedEffect, ...]:
    """The effects of what is about to be published, by slice; none for a silent run."""
    task = attempt.task
    if attempt.request.silent or not task.effects:
        return ()
    owner = attempt.context.ledger.owner.effect_owner(task.name)
    return tuple(
        prepare(
            owner,
            task.first_name,
            effect,
            PublishedGeneration(label, generation, ready.measured[label].fingerprint),
        )
        for label, generation in ready.found.aims.items()
        for effect in task.effects
    )


def send_effects(attempt: Attempt, result: RunResult) -> RunResult:
    """Make and send the effects of this task, also those that earlier runs left. The run has ended well by now: nothing
    in here can fail it. Dying in here leaves the rest for the next run, `recover` or `effects send`."""
    if not attempt.task.effects:
        return result
    if attempt.request.silent:
        return replace(result, notes=(*result.notes, "this run was silent: its effects were not prepared"))
    before = being_handled()
    try:
        send_pending(attempt.context, attempt.task.name)
        ends = effect_ends(attempt.context, attempt.task, tuple(attempt.token_names), attempt.id)
    except BaseException as error:
        interrupt = interruption(error, before)
        if interrupt is not None:
            failure = RunError(
                "interrupted while its effects were sent",
                where=attempt.where,
                now="The slice is published.",
                fix="Its effects are sent by the next run, or: twice effects send.",
            )
            raise_interrupt(interrupt, failure, error)
        if not isinstance(error, Exception):
            raise
        # The rows are published, whatever happens to their effects.
        what = error.what if isinstance(error, TwiceError) else f"{type(error).__name__}: {cause_line(error)}"
        note = f"its effects could not be sent now ({what}); next: twice effects send"
        return replace(result, notes=(*result.notes, note))
    return replace(result, effects=ends)


def effect_ends(context: RunContext, task: Task, labels: Sequence[str], attempt: str) -> tuple[EffectEnd, ...]:
    """What became of each effect of these slices, as an attempt at them reports it."""
    recorded = [
        (label, context.ledger.outbox.last_counted(task.name, label, effect.name))
        for label in labels
        for effect in task.effects
    ]
    return tuple(
        EffectEnd(label, record.name, record.id, record.state, record.why, already=record.attempt != attempt)
        for label, record in recorded
        if record is not None
    )
