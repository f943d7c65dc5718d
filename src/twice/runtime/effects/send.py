"""Sending the effects that wait, and a person's decision on one that is in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twice.core.closed import assert_never
from twice.core.ledger.outbox import Change, EffectRecord, EffectState
from twice.core.ledger.record import AttemptState
from twice.core.scope import slice_named
from twice.core.task import Task
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.effects.delivery import Delivery, decide_silent, drain, may_wake_up, render_released
from twice.runtime.table.old_tables import table_named
from twice.runtime.table.settle import stopped_reporting
from twice.runtime.write_plan import make_write_plan

S = EffectState
Resolution = Literal["sent", "resend", "abandon"]


@dataclass(frozen=True)
class EffectDecision:
    """What a person decides of an effect; who and why is kept. `sender_is_gone`: the process that was sending it is
    known to be gone, though nobody here sees that."""

    resolution: Resolution
    who: str
    reason: str
    sender_is_gone: bool = False


def send_pending(context: RunContext, task: str | None = None) -> int:
    """Make and send whatever waits, of one task or of all; how many tries were made."""
    context.progress.begins("looking for effects to send", task or "")
    delivery = delivery_of(context)
    render_released(delivery, task)
    return drain(delivery, task) if context.sends else 0


def delivery_of(context: RunContext) -> Delivery:
    """No session is opened unless a text needs rows of its table."""

    def sample(task: Task, effect: EffectRecord, count: int) -> tuple[Mapping[str, Any], ...]:
        """Rows of the committed version, of the table that it was committed to; none if the slice was published again
        since."""
        slice_ = slice_named(task.scope, effect.label)
        (name,) = make_write_plan(context.project.id, task, (slice_,)).token_names
        recorded = context.ledger.outbox.table_of(effect)
        table = table_named(context, recorded) if recorded else task.target
        context.progress.begins("reading rows for its text", effect.where)
        with context.session() as session:
            target = context.target_of(table, session)
            found = target.published(table, (name,))
            if found.generations[name] != effect.generation:
                return ()
            return context.engine.sample(target.read(table, at=found.version), slice_, count)

    return Delivery(
        context.project,
        context.ledger,
        context.senders,
        context.clock,
        context.holder,
        sample,
        progress=context.progress,
    )


def resolve(delivery: Delivery, id_: int, decision: EffectDecision) -> EffectRecord:
    """A person's decision on an effect. It stays on record, with the reason."""
    outbox = delivery.ledger.outbox
    decide_silent(delivery)
    effect = outbox.find(id_)
    if effect is None:
        raise UsageError(f"there is no effect {id_}", fix="See them: twice effects list.")
    if not decision.reason.strip():
        raise UsageError(
            "a reason is needed: it is recorded", where=effect.where, fix='Write --reason "checked with …".'
        )
    if effect.state not in (S.IN_DOUBT, S.DEAD, S.UNKNOWN, S.PENDING, S.RELEASED) and not (
        decision.resolution != "resend" and _may_have_landed(delivery, effect)
    ):
        raise UsageError(
            f"the effect is {effect.state.value}: there is nothing to resolve",
            where=effect.where,
            now="Nothing was changed.",
            fix=f"See twice effects show {id_}.",
        )
    if decision.resolution == "resend" and may_wake_up(effect) and not decision.sender_is_gone:
        raise UsageError(
            f"{effect.sender} stopped reporting while it was sending, and may still wake up and send",
            where=effect.where,
            now="Nothing was changed.",
            fix="End that process first; if you know that it is gone (its machine is), use --sender-is-gone.",
        )
    if not outbox.change(effect, _change(effect, decision.resolution, decision.reason, delivery), decision.who):
        raise UsageError(
            "the effect changed just now: somebody else sent it or decided on it",
            where=effect.where,
            now="Your decision was not recorded.",
            fix=f"See how it is now: twice effects show {id_}.",
        )
    found = outbox.find(id_)
    assert found is not None
    return found


def _may_have_landed(delivery: Delivery, effect: EffectRecord) -> bool:
    """Whether its attempt died while it was publishing: `twice recover` asks the table, as long as there is one."""
    attempt = delivery.ledger.attempt(effect.attempt) if effect.attempt is not None else None
    if effect.state is not S.PREPARED or attempt is None or attempt.state is not AttemptState.PUBLISHING:
        return False
    return stopped_reporting(delivery.ledger, attempt)


def _change(effect: EffectRecord, resolution: Resolution, reason: str, delivery: Delivery) -> Change:
    match resolution:
        case "sent":
            return Change(S.SENT, reason, receipt="confirmed by a person")
        case "abandon":
            return Change(S.ABANDONED, reason)
        case "resend":
            # The person takes the doubt on themselves: it is cleared. Without a text it goes back to be rendered.
            if effect.message is None:
                return Change(S.RELEASED, reason)
            return Change(S.PENDING, reason, delivery.ledger.now())
        case _:
            assert_never(resolution)
