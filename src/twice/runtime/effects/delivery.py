"""From a released effect to a receipt: its text is made once, then it is sent, and how that ended is recorded.

Nothing in here can undo a publish. Whoever dies in here leaves the effect in a state that shows how far it came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from twice.core.effect import Effect, Message, PublishedSlice
from twice.core.failure.failpoints import SendPoint, hit
from twice.core.failure.interruption import raised_by_handler
from twice.core.failure.user_code import USER_CODE_FAILS
from twice.core.ledger.outbox import (
    Answer,
    Change,
    Doubtful,
    EffectRecord,
    EffectState,
    Refused,
    after_answer,
    after_probe,
    after_silence,
    too_late,
)
from twice.core.ports import SILENT, Clock, NotLeaving, OutgoingMessage, Progress, RunLedger, Sender
from twice.core.project.project import Project
from twice.core.task import Task
from twice.errors import DeclarationError, TwiceError
from twice.runtime.holder import is_gone

IN_FLIGHT = 8
LONGEST_BODY = 256 * 1024
LEASE = timedelta(seconds=90)
"""Longer than a try may take. Past two thirds of it, a try that has not begun to leave does not leave any more."""

S = EffectState
Sample = Callable[[Task, EffectRecord, int], tuple[Mapping[str, Any], ...]]


@dataclass(frozen=True)
class Delivery:
    """What sending needs at hand: no engine, no target. `sample` reads rows of what was committed; `progress` hears
    what is being done."""

    project: Project
    ledger: RunLedger
    senders: Mapping[str, Sender]
    clock: Clock
    holder: str
    sample: Sample
    lease: timedelta = LEASE
    progress: Progress = SILENT

    def declared(self, effect: EffectRecord) -> Effect | None:
        """The declaration behind an effect; None if it is gone from the project."""
        task = self.project.tasks.get(effect.task)
        return next((one for one in task.effects if one.name == effect.name), None) if task else None


def render_released(delivery: Delivery, task: str | None = None) -> None:
    """Make the text of every effect whose publish is on record. Two processes at once: one text is stored. Dying in
    here leaves the rest released."""
    for effect in delivery.ledger.outbox.in_state(S.RELEASED, task):
        hit(SendPoint.RELEASED)
        delivery.progress.begins("writing the text", effect.where)
        message = _composed(delivery, effect)
        if isinstance(message, Message):
            delivery.ledger.outbox.render(effect, message, delivery.holder)
        else:
            delivery.ledger.outbox.change(effect, message, delivery.holder)
        hit(SendPoint.RENDERED)


def drain(delivery: Delivery, task: str | None = None, patience: timedelta = timedelta(0)) -> int:
    """Send what is due, eight at a time, and for as long as `patience` what becomes due; how many tries were made.

    First what lost senders left behind is decided: with a key it is due again, without one it is in doubt. Dying in
    here leaves at most eight effects `sending`.
    """
    decide_silent(delivery, task)
    ask_probes(delivery, task)
    delivery.progress.begins("sending effects", task or "")
    deadline = delivery.clock.monotonic() + patience.total_seconds()
    tries = 0
    with ThreadPoolExecutor(IN_FLIGHT, "twice-effect") as pool:
        while True:
            due = delivery.ledger.outbox.due(task, 500)
            tries += sum(_in_parallel(pool, lambda effect: _try(delivery, effect), due))
            if due:
                continue
            following = delivery.ledger.outbox.next_due(task)
            left = deadline - delivery.clock.monotonic()
            if following is None or left <= 0 or (following - delivery.ledger.now()).total_seconds() > left:
                return tries
            delivery.progress.begins("waiting to send again", task or "", f"{following:%H:%M:%S}")
            threading.Event().wait(max(0.01, (following - delivery.ledger.now()).total_seconds()))


def decide_silent(delivery: Delivery, task: str | None = None) -> None:
    """Effects whose sender stopped reporting while it was sending. Whether they arrived is not known here."""
    outbox = delivery.ledger.outbox
    gone = [effect for effect in outbox.in_state(S.SENDING, task) if effect.sender and is_gone(effect.sender)]
    for effect in {effect.id: effect for effect in (*outbox.not_reporting(task), *gone)}.values():
        outbox.change(effect, after_silence(effect, delivery.ledger.now()), delivery.holder)


def ask_probes(delivery: Delivery, task: str | None = None) -> None:
    """Ask the receiver whether a doubtful effect arrived, where a probe can ask it. While its sender may still
    wake up, only a yes counts."""
    for effect in delivery.ledger.outbox.in_state(S.IN_DOUBT, task):
        declared = delivery.declared(effect)
        if declared is None or declared.probe is None:
            continue
        delivery.progress.begins("asking whether it arrived", effect.where)
        try:
            arrived = declared.probe(effect.key)
        except USER_CODE_FAILS as error:  # a probe that fails is no answer
            if raised_by_handler(error):
                raise
            continue
        if arrived is None or (not arrived and may_wake_up(effect)):
            continue
        delivery.ledger.outbox.change(
            effect, after_probe(bool(arrived), delivery.ledger.now()), f"probe of {effect.name}"
        )


def may_wake_up(effect: EffectRecord) -> bool:
    """Whether a process that stopped reporting while it was sending may still exist: it could send after all."""
    return effect.sender is not None and not is_gone(effect.sender)


def _in_parallel(
    pool: ThreadPoolExecutor, act: Callable[[EffectRecord], bool], effects: Sequence[EffectRecord]
) -> list[bool]:
    # Failpoints are armed in a context; threads start without one.
    return list(pool.map(lambda pair: pair[0].run(act, pair[1]), [(copy_context(), effect) for effect in effects]))


def _try(delivery: Delivery, effect: EffectRecord) -> bool:
    """One try. Dying before `begin` has sent nothing; after it the effect is `sending`, and its key or a person
    decides."""
    outbox = delivery.ledger.outbox
    late = too_late(effect, delivery.ledger.now())
    if late is not None:
        outbox.change(effect, late, delivery.holder)
        return False
    hit(SendPoint.BEFORE_SENDING)
    began = delivery.clock.monotonic()
    begun = outbox.begin(effect, delivery.holder, delivery.lease)
    if begun is None:
        return False
    hit(SendPoint.SENDING)
    answer = _send(delivery, begun, began)
    hit(SendPoint.ANSWERED)
    outbox.end(begun, after_answer(begun, answer, effect.doubt_since, delivery.ledger.now()), delivery.holder)
    hit(SendPoint.RECORDED)
    return True


def _send(delivery: Delivery, effect: EffectRecord, began: float) -> Answer:
    def leaving() -> None:
        # A process that was stopped may wake up here, when others have decided. The clock alone is not asked: it may
        # have stood still with the machine. Stopped between this line and the first byte, it sends: docs/effects.md.
        in_time = delivery.clock.monotonic() - began < delivery.lease.total_seconds() * 2 / 3
        if not in_time or not delivery.ledger.outbox.holds(effect):
            raise NotLeaving
        hit(SendPoint.LEAVING)

    declared, sender = delivery.declared(effect), delivery.senders.get(effect.kind)
    if sender is None or effect.message is None:
        return Refused(f"this project has no sender for {effect.kind}", for_good=True)
    outgoing = OutgoingMessage(effect.key, effect.keyed, effect.message, declared.function if declared else None)
    try:
        return sender.send(outgoing, leaving)
    except NotLeaving:
        return Refused("it resumed too late to send")
    except DeclarationError as error:
        return Refused(f"{error.what}. {error.fix}".strip())
    except USER_CODE_FAILS as error:  # a defect of a sender; what it had done by then is not known
        return Doubtful(f"the sender failed with {type(error).__name__}")


def _composed(delivery: Delivery, effect: EffectRecord) -> Message | Change:
    """Its text, or why there can be none: user code raised, the declaration is gone."""
    declared, task = delivery.declared(effect), delivery.project.tasks.get(effect.task)
    sender = delivery.senders.get(effect.kind)
    if declared is None or task is None:
        return Change(S.DEAD, "the task does not declare this effect any more, so its text cannot be rendered")
    if sender is None:
        return Change(S.DEAD, f"this project has no sender for {effect.kind}")
    try:
        result = stored_result(
            delivery, effect, delivery.sample(task, effect, declared.sample) if declared.sample else ()
        )
        message = sender.compose(declared, result, effect.key, delivery.ledger.now())
    except TwiceError as error:
        return Change(S.DEAD, f"its text cannot be rendered: {error}")
    except USER_CODE_FAILS as error:
        return Change(S.DEAD, f"its text cannot be rendered: {type(error).__name__}: {error}")
    if len(message.body.encode()) > LONGEST_BODY:
        return Change(S.DEAD, f"its text is longer than {LONGEST_BODY:,} bytes")
    return message


def stored_result(delivery: Delivery, effect: EffectRecord, sample: tuple[Mapping[str, Any], ...]) -> PublishedSlice:
    """What the ledger remembers of the publish that the effect is for."""
    attempt = delivery.ledger.attempt(effect.attempt) if effect.attempt else None
    learnt = next((one for one in attempt.slices if one.label == effect.label), None) if attempt else None
    run = delivery.ledger.run(effect.task, effect.label)
    here = delivery.ledger.outbox.table_of(effect) == delivery.ledger.owner.table_of(effect.task).table
    known = run if here and run is not None and run.generation == effect.generation else None
    of_slice = learnt or known
    return PublishedSlice(
        project=delivery.project.id,
        task=effect.task,
        slice=effect.label,
        generation=effect.generation,
        rows=of_slice.rows if of_slice else None,
        fingerprint=of_slice.fingerprint if of_slice else None,
        version=attempt.version if attempt else known.version if known else None,
        audits=attempt.audits if attempt else (),
        sample=sample,
    )
