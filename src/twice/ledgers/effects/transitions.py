"""How effects move on in the outbox. Every transition is guarded by the state it comes from, and leaves an event.

A `task` here is the task's key. The functions are parts of somebody's transaction: they have happened when that
commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, exists, func, insert, literal, or_, select, update

from twice.core.effect import Message
from twice.core.ledger.outbox import Change, EffectEvent, EffectRecord, EffectState, PreparedEffect
from twice.core.ledger.record_owner import name_of
from twice.ledgers.database.effect_tables import COUNTS, UNCOUNTED_STATES, effect_events, effects
from twice.ledgers.database.schema import UtcTime

S = EffectState
_STATES = {state.value: state for state in EffectState}


_OF_ATTEMPT = effects.c.attempt == bindparam("of_attempt")
_WAITING = (
    select(effects)
    .where(_OF_ATTEMPT, effects.c.state.in_((S.PREPARED.value, S.CANCELLED.value)))
    .order_by(effects.c.id)
)
_PREPARED = select(effects.c.id).where(_OF_ATTEMPT, effects.c.state == S.PREPARED.value).order_by(effects.c.id)
_ADD_EVENT = insert(effect_events)


def prepare(connection: Connection, attempt: str, task: str, wanted: Sequence[PreparedEffect], now: datetime) -> None:
    """Name the effects of an attempt that is about to publish. An occasion that counts already is not prepared
    again, nor what this attempt has prepared. Dying before the commit has prepared nothing and published nothing."""
    mine = select(effects.c.label, effects.c.name).where(effects.c.attempt == attempt)
    prepared = {(one.label, one.name) for one in connection.execute(mine)} if wanted else set()
    for effect in wanted:
        if (effect.label, effect.name) not in prepared and not _counted_before(connection, task, effect):
            row = {**_row(task, effect), "attempt": attempt, "state": S.PREPARED.value}
            _put(connection, row, now, "before the publish")


def release(connection: Connection, attempt: str, now: datetime) -> None:
    """The attempt landed: its effects are to be sent, also those written off when it was thought dead. An occasion
    that counts for another attempt stays its own. A second call changes nothing."""
    for row in connection.execute(_WAITING, {"of_attempt": attempt}).all():
        other = effects.alias("other")
        taken = connection.execute(
            select(other.c.attempt).where(*_same_occasion(other, row), other.c.state.not_in(UNCOUNTED_STATES))
        ).first()
        change = (
            Change(S.RELEASED, "published") if taken is None else Change(S.CANCELLED, f"sent for {_short(taken[0])}")
        )
        if change.state.value != row.state:
            move(connection, row.id, EffectStep((_STATES[row.state],), change, _short(attempt)), now)


def cancel(connection: Connection, attempt: str, why: str, now: datetime) -> None:
    """The attempt ended without publishing: nothing is sent of it."""
    for id_ in connection.execute(_PREPARED, {"of_attempt": attempt}).scalars().all():
        move(connection, id_, EffectStep((S.PREPARED,), Change(S.CANCELLED, why), _short(attempt)), now)


def remember_unknown(connection: Connection, task: str, wanted: Sequence[PreparedEffect], now: datetime) -> int:
    """These occasions were published before this ledger knew of them: what was sent of them is not on record. They
    are never sent by themselves. How many were not known before."""
    added = 0
    for effect in wanted:
        if not _counted_before(connection, task, effect):
            unknown = {**_row(task, effect), "attempt": None, "state": S.UNKNOWN.value}
            _put(connection, unknown, now, "published before this ledger knew of it")
            added += 1
    return added


def remember_old(connection: Connection, task: str, old: Any, why: str, now: datetime) -> None:
    """An effect of an unknown attempt was counted for a slice of this task: it is of unknown state here, under
    the key it had. Not where the occasion counts for the task already, or the task has compared its rows with later
    ones."""
    of_slice = (effects.c.task == task, effects.c.label == old.label, effects.c.name == old.name, COUNTS)
    if connection.execute(select(exists().where(*of_slice, effects.c.occasion == old.occasion))).scalar_one():
        return
    later = select(exists().where(*of_slice, effects.c.generation > old.generation))
    if ":" in old.occasion and connection.execute(later).scalar_one():
        return
    kept = {name: old._mapping[name] for name in ("key", "label", "name", "kind", "occasion", "generation")}
    kept |= {name: old._mapping[name] for name in ("fingerprint", "keyed", "remembers")}
    _put(connection, {**kept, "task": task, "state": S.UNKNOWN.value}, now, why)


def make_unknown(connection: Connection, id_: int, why: str, now: datetime) -> None:
    """Whatever it waited for, it is not sent by itself any more."""
    move(connection, id_, EffectStep(tuple(S), Change(S.UNKNOWN, why), _short(None)), now)


@dataclass(frozen=True)
class EffectStep:
    """From one of the states `before` to the next, by `who`. `fence`: only in this very try; `message`: the bytes that
    every try will send."""

    before: Sequence[EffectState]
    change: Change
    who: str
    fence: int | None = None
    message: Message | None = None


def move(connection: Connection, id_: int, step: EffectStep, now: datetime) -> bool:
    """False, and nothing written, if it has moved on meanwhile."""
    change = step.change
    before = [state.value for state in step.before]
    guard: list[ColumnElement[bool]] = [effects.c.id == id_, effects.c.state.in_(before)]
    if step.fence is not None:
        guard.append(effects.c.fence == step.fence)
    values: dict[str, Any] = {
        "state": change.state.value,
        "why": change.why or None,
        "due": change.due,
        "doubt_since": change.doubt_since,
        "sender": change.sender,
        "until": None,
        "changed": now,
    }
    if change.receipt is not None:
        values["receipt"] = change.receipt
    if step.message is not None:
        values["message"] = step.message.to_json()
    if connection.execute(update(effects).where(*guard).values(values)).rowcount != 1:
        return False
    _record(connection, id_, EffectEvent(now, change.state, step.who, change.why))
    return True


def begin(connection: Connection, id_: int, sender: str, now: datetime, until: datetime) -> EffectRecord | None:
    """pending -> sending, for one process: committed before its first byte leaves. None if another one has it."""
    begun = connection.execute(
        update(effects)
        .where(effects.c.id == id_, effects.c.state == S.PENDING.value, effects.c.due <= now)
        .values(
            state=S.SENDING.value,
            sender=sender,
            until=until,
            fence=effects.c.fence + 1,
            changed=now,
            # Dying from here on leaves doubt, and this is when it began, if there was none before.
            doubt_since=func.coalesce(effects.c.doubt_since, literal(now, UtcTime)),
        )
        .returning(effects)
    ).one_or_none()
    if begun is None:
        return None
    _record(connection, id_, EffectEvent(now, S.SENDING, sender, f"try {begun.fence}"))
    return record_of(begun)


def read_events(connection: Connection, id_: int) -> tuple[EffectEvent, ...]:
    rows = connection.execute(
        select(effect_events).where(effect_events.c.effect == id_).order_by(effect_events.c.id)
    ).all()
    return tuple(EffectEvent(row.at, _STATES[row.state], row.who, row.why) for row in rows)


def record_of(row: Any) -> EffectRecord:
    return EffectRecord(
        id=row.id,
        key=row.key,
        task=name_of(row.task),
        label=row.label,
        name=row.name,
        kind=row.kind,
        occasion=row.occasion,
        attempt=row.attempt,
        generation=row.generation,
        state=_STATES[row.state],
        keyed=row.keyed,
        remembers=timedelta(seconds=row.remembers),
        message=None if row.message is None else Message.from_json(row.message),
        fence=row.fence,
        sender=row.sender,
        until=row.until,
        due=row.due,
        doubt_since=row.doubt_since,
        receipt=row.receipt,
        why=row.why,
        prepared=row.prepared,
        changed=row.changed,
    )


def _counted_before(connection: Connection, task: str, effect: PreparedEffect) -> bool:
    """By name, not by key: a renamed task keeps the effects it sent. Rows are compared with the last ones known to have
    counted: what is unknown without its rows says nothing of them."""
    of_slice = (effects.c.task == task, effects.c.label == effect.label, effects.c.name == effect.name, COUNTS)
    if connection.execute(select(exists().where(*of_slice, effects.c.occasion == effect.occasion))).scalar_one():
        return True
    if effect.again != "when_changed":
        return False
    known = or_(effects.c.state != S.UNKNOWN.value, effects.c.fingerprint.is_not(None))
    last = connection.execute(
        select(effects.c.fingerprint).where(*of_slice, known).order_by(effects.c.id.desc()).limit(1)
    ).scalar_one_or_none()
    return last is not None and last == effect.fingerprint


def _same_occasion(other: Any, row: Any) -> tuple[ColumnElement[bool], ...]:
    return tuple(other.c[name] == getattr(row, name) for name in ("task", "label", "name", "occasion"))


def _row(task: str, effect: PreparedEffect) -> dict[str, Any]:
    return {
        "key": effect.key,
        "task": task,
        "label": effect.label,
        "name": effect.name,
        "kind": effect.kind,
        "occasion": effect.occasion,
        "generation": effect.generation,
        "fingerprint": effect.fingerprint,
        "keyed": effect.keyed,
        "remembers": int(effect.remembers.total_seconds()),
    }


def _put(connection: Connection, values: dict[str, Any], now: datetime, why: str) -> None:
    stamped = {**values, "fence": 0, "prepared": now, "changed": now}
    id_ = connection.execute(insert(effects).values(stamped).returning(effects.c.id)).scalar_one()
    _record(connection, id_, EffectEvent(now, _STATES[values["state"]], _short(values.get("attempt")), why))


def _record(connection: Connection, id_: int, event: EffectEvent) -> None:
    connection.execute(_ADD_EVENT, {"effect": id_, **vars(event), "state": event.state.value})


def _short(attempt: str | None) -> str:
    return "no known attempt" if attempt is None else f"attempt {attempt[:8]}"
