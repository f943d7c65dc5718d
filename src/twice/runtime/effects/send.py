"""What a run says: named before the publish, made and sent after it. A person settles what is in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from twice.core.interruption import exit_code_of
from twice.core.outbox import Change, EffectRecord, EffectState, Prepared, prepare
from twice.core.run import EffectEnd, RunResult
from twice.core.scope import slice_named
from twice.core.task import Task
from twice.errors import Interrupted, RunError, TwiceError, UsageError
from twice.runtime.context import RunContext
from twice.runtime.effects.delivery import Delivery, drain, judge_silent, may_wake_up, render_released
from twice.runtime.run.attempt import Attempt, StagedRun, key_line
from twice.runtime.table.old_tables import table_named
from twice.runtime.table.write_plan import make_plan

S = EffectState
Resolution = Literal["sent", "resend", "abandon"]

_STATES = {"sent": S.SENT, "abandon": S.ABANDONED}


def effects_to_prepare(attempt: Attempt, ready: StagedRun) -> tuple[Prepared, ...]:
    """The effects of what is about to be published, by slice; none for a silent run."""
    task = attempt.task
    if attempt.silent or not task.effects:
        return ()
    whose = attempt.context.ledger.owner.effect_owner(task.name)
    return tuple(
        prepare(whose, task.first_name, effect, label, generation, ready.measured[label].fingerprint)
        for label, generation in ready.found.aims.items()
        for effect in task.effects
    )


def send_effects(attempt: Attempt, result: RunResult) -> RunResult:
    """Make and send what this task has to say, also what earlier runs left. The run has ended well by now: nothing
    in here can fail it. Dying in here leaves the rest for the next run, `recover` or `effects send`."""
    context, task = attempt.context, attempt.task
    if not task.effects:
        return result
    if attempt.silent:
        return replace(result, notes=(*result.notes, "this run was silent: its effects were not prepared"))
    try:
        send_pending(context, attempt.session, task.name)
        ends = tuple(_ends(context, attempt, task))
    except Exception as error:  # noqa: BLE001 - the rows are published, whatever happens to what is said of them
        what = error.what if isinstance(error, TwiceError) else f"{type(error).__name__}: {key_line(error)}"
        told = f"its effects could not be sent now ({what}); next: twice effects send"
        return replace(result, notes=(*result.notes, told))
    except KeyboardInterrupt as interrupt:
        fix = "Its effects are sent by the next run, or: twice effects send."
        raise Interrupted(
            RunError(
                "interrupted while its effects were sent", where=attempt.where, now="The slice is right.", fix=fix
            ),
            exit_code_of(interrupt),
        ) from interrupt
    return replace(result, effects=ends)


def send_pending(context: RunContext, session: Any, task: str | None = None) -> int:
    """Make and send whatever waits, of one task or of all; how many tries were made."""
    delivery = delivery_of(context, session)
    render_released(delivery, task)
    return drain(delivery, task) if context.sends else 0


def delivery_of(context: RunContext, session: Any) -> Delivery:
    def sample(task: Task, effect: EffectRecord, count: int) -> tuple[Mapping[str, Any], ...]:
        """Rows of the committed version, of the table that it was committed to; none if the slice was published again
        since."""
        slice_ = slice_named(task.scope, effect.label)
        (app,) = make_plan(context.project.id, task, (slice_,)).token_names
        named = context.ledger.outbox.table_of(effect)
        table = table_named(context, named) if named else task.target
        target = context.target_of(table, session)
        found = target.published(table, (app,))
        if found.generations[app] != effect.generation:
            return ()
        return context.engine.sample(target.read(table, at=found.version), slice_, count)

    return Delivery(context.project, context.ledger, context.senders, context.clock, context.holder, sample)


def resolve(
    delivery: Delivery, id_: int, word: Resolution, who: str, reason: str, *, sender_is_gone: bool = False
) -> EffectRecord:
    """A person's word on an effect. What they said, and why, stays on record."""
    outbox = delivery.ledger.outbox
    judge_silent(delivery)
    effect = outbox.find(id_)
    if effect is None:
        raise UsageError(f"there is no effect {id_}", fix="See them: twice effects list.")
    if not reason.strip():
        raise UsageError("a reason is needed: it is kept", where=effect.where, fix='Write --reason "checked with …".')
    if effect.state not in (S.IN_DOUBT, S.DEAD, S.UNKNOWN, S.PENDING):
        raise UsageError(
            f"the effect is {effect.state.value}: there is nothing to resolve",
            where=effect.where,
            fix=f"See twice effects show {id_}.",
        )
    if word == "resend" and may_wake_up(effect) and not sender_is_gone:
        raise UsageError(
            f"{effect.sender} fell silent while it was sending, and may still wake up and send",
            where=effect.where,
            now="Nothing was changed.",
            fix="End that process first; if you know that it is gone (its machine is), say --sender-is-gone.",
        )
    if not outbox.change(effect, _change(effect, word, reason, delivery), who):
        raise UsageError("it changed just now", where=effect.where, fix=f"Look again: twice effects show {id_}.")
    found = outbox.find(id_)
    assert found is not None
    return found


def _change(effect: EffectRecord, word: Resolution, reason: str, delivery: Delivery) -> Change:
    if word != "resend":
        return Change(_STATES[word], reason, receipt="a person says so" if word == "sent" else None)
    # Without a text it goes back to where texts are made. The person takes the doubt on themselves: it is cleared.
    return Change(S.RELEASED, reason) if effect.message is None else Change(S.PENDING, reason, delivery.ledger.now())


def _ends(context: RunContext, attempt: Attempt, task: Task) -> list[EffectEnd]:
    found = []
    for label in attempt.apps:
        for effect in task.effects:
            said = context.ledger.outbox.last_counted(task.name, label, effect.name)
            if said is not None:
                already = said.attempt != attempt.id
                found.append(EffectEnd(label, effect.name, said.id, said.state, said.why, already))
    return found
