"""The outbox's rules: what an effect's state is, and what follows from what happened to it. Pure.

    prepared ─ landed ─> released ─ rendered ─> pending ──> sending ─ accepted ──────────────> sent
       │                     └─ cannot be ─> dead  ^ ^ ^        ├──── refused for good ──────> dead
       └ not landed ─> cancelled                   │ │ └────────┼──── refused for now
                                                   │ └─ keyed ──┼──── may have arrived ──────> in_doubt
                                                   └────────────┴─ a probe or a person says: not sent

`sending` is committed before the first byte leaves. Whoever finds it there after its sender stopped reporting cannot
know whether it arrived. From `in_doubt`, `dead` and `unknown` only a probe or a person leads out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from twice.core.closed import assert_never
from twice.core.effect import Again, Effect, EffectKind, Message

MOST_TRIES = 12
"""Refused for now so many times, an effect is dead: about four hours."""

LONGEST_WAIT = timedelta(hours=1)


class Needs(Enum):
    """What an effect needs to move on."""

    A_PUBLISH = "its attempt must land"
    A_SENDER = "it is sent as soon as it is due"
    A_PERSON = "a probe or a person must decide"
    NOTHING = "it is settled"


class EffectState(str, Enum):
    """How far an effect came."""

    PREPARED = "prepared"  # named before the publish; nothing landed yet
    CANCELLED = "cancelled"  # its publish did not land, or another effect was sent for it
    RELEASED = "released"  # landed; its text is not rendered yet
    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    IN_DOUBT = "in_doubt"  # may have arrived
    DEAD = "dead"  # will not be sent by itself
    ABANDONED = "abandoned"  # a person gave it up
    UNKNOWN = "unknown"  # may have been sent, it is not known by whom: a lost ledger, a copied table, old records

    @property
    def counts(self) -> bool:
        """Whether it holds its occasion: no other effect is sent for that again."""
        return self.needs is not Needs.A_PUBLISH

    @property
    def waits_for_a_person(self) -> bool:
        return self.needs is Needs.A_PERSON

    @property
    def needs(self) -> Needs:
        match self:
            case EffectState.PREPARED | EffectState.CANCELLED:
                return Needs.A_PUBLISH
            case EffectState.RELEASED | EffectState.PENDING | EffectState.SENDING:
                return Needs.A_SENDER
            case EffectState.IN_DOUBT | EffectState.DEAD:
                return Needs.A_PERSON
            case EffectState.SENT | EffectState.ABANDONED | EffectState.UNKNOWN:
                return Needs.NOTHING
            case _:
                assert_never(self)


S = EffectState


@dataclass(frozen=True)
class PreparedEffect:
    """An effect as it is written down with the intent to publish."""

    key: str
    label: str
    name: str
    kind: EffectKind
    occasion: str
    again: Again
    generation: int
    fingerprint: str | None
    keyed: bool
    remembers: timedelta


@dataclass(frozen=True)
class EffectRecord:
    """One effect in the outbox.

    `sender` is the process that may still be sending it; `fence` counts its tries, so that an older try that wakes
    up is distinguished; `doubt_since` is when a try began whose end is not known: from then its memory counts.
    """

    id: int
    key: str
    task: str
    label: str
    name: str
    kind: EffectKind
    occasion: str
    attempt: str | None
    generation: int
    state: EffectState
    keyed: bool
    remembers: timedelta
    message: Message | None
    fence: int
    sender: str | None
    until: datetime | None
    due: datetime | None
    doubt_since: datetime | None
    receipt: str | None
    why: str | None
    prepared: datetime
    changed: datetime

    @property
    def where(self) -> str:
        return f"{self.task}[{self.label}] {self.name}"


@dataclass(frozen=True)
class EffectEvent:
    """One step in an effect's life: who took it, when and why."""

    at: datetime
    state: EffectState
    who: str
    why: str


@dataclass(frozen=True)
class Delivered:
    receipt: str


@dataclass(frozen=True)
class Refused:
    """Surely nothing happened. `for_good`: the same again would be refused again."""

    why: str
    for_good: bool = False
    wait: timedelta | None = None


@dataclass(frozen=True)
class Doubtful:
    """It may have arrived."""

    why: str
    wait: timedelta | None = None


Answer = Delivered | Refused | Doubtful


@dataclass(frozen=True)
class Change:
    """The next state. `sender` stays named only while that process might still be sending."""

    state: EffectState
    why: str
    due: datetime | None = None
    doubt_since: datetime | None = None
    receipt: str | None = None
    sender: str | None = None


def occasion_of(again: Again, generation: int, fingerprint: str | None) -> str:
    """What makes one message differ from the next: nothing, the publish, or the publish of other rows."""
    match again:
        case "never":
            return ""
        case "on_restate":
            return str(generation)
        case "when_changed":
            return f"{generation}:{fingerprint}"
        case _:
            assert_never(again)


def key_of(owner: Sequence[str], task: str, label: str, name: str, occasion: str) -> str:
    """64 hexadecimal digits. As JSON, so that no two lists of words run together. `owner`: project, environment and
    table, so that a receiver that got it from one does not take another's for the same."""
    return hashlib.sha256(json.dumps([list(owner), task, label, name, occasion]).encode()).hexdigest()


@dataclass(frozen=True)
class PublishedGeneration:
    """The publish that an effect is sent for. `fingerprint`: of its rows, where it is known."""

    label: str
    generation: int
    fingerprint: str | None = None


def prepare(owner: Sequence[str], task: str, effect: Effect, published: PublishedGeneration) -> PreparedEffect:
    occasion = occasion_of(effect.again, published.generation, published.fingerprint)
    return PreparedEffect(
        key_of(owner, task, published.label, effect.name, occasion),
        published.label,
        effect.name,
        effect.kind,
        occasion,
        effect.again,
        published.generation,
        published.fingerprint,
        effect.keyed,
        effect.remembers,
    )


def after_answer(record: EffectRecord, answer: Answer, before: datetime | None, now: datetime) -> Change:
    """What the receiver's answer means. `before`: the doubt that was there before this try."""
    match answer:
        case Delivered():
            return Change(S.SENT, "", receipt=answer.receipt)
        case Doubtful():
            return _doubt(record, answer.why, now, answer.wait)
        case Refused():
            return _after_refusal(record, answer, before, now)
        case _:
            assert_never(answer)


def _after_refusal(record: EffectRecord, answer: Refused, before: datetime | None, now: datetime) -> Change:
    if answer.for_good:
        return Change(S.DEAD, answer.why)
    if record.fence >= MOST_TRIES and before is None:
        return Change(S.DEAD, f"refused {record.fence} times, last: {answer.why}")
    if before is not None and not _remembered(record, before, now):
        return Change(S.IN_DOUBT, _forgotten(record, answer.why), doubt_since=before)
    return Change(S.PENDING, answer.why, now + wait_before(record, answer.wait), before)


def after_silence(record: EffectRecord, now: datetime) -> Change:
    """The process that was sending it does not report any more. It may wake up: its name stays."""
    why = f"{record.sender} stopped reporting while it was sending"
    change = _doubt(record, why, now, timedelta(0))
    return Change(change.state, change.why, change.due, change.doubt_since, sender=record.sender)


def too_late(record: EffectRecord, now: datetime) -> Change | None:
    """A pending effect that may have arrived before, and whose key the receiver may have forgotten meanwhile."""
    if record.doubt_since is None or (record.keyed and _remembered(record, record.doubt_since, now)):
        return None
    return Change(S.IN_DOUBT, _forgotten(record, record.why or "not sent in time"), doubt_since=record.doubt_since)


def after_probe(arrived: bool, now: datetime) -> Change:
    if arrived:
        return Change(S.SENT, "the receiver says it arrived", receipt="found by its probe")
    return Change(S.PENDING, "the receiver says it did not arrive", now)


def wait_before(record: EffectRecord, asked: timedelta | None) -> timedelta:
    """How long to wait before the next try: what the receiver asked for, at least twice as long each time, spread
    by the key so that a thousand effects refused at once do not come back at once."""
    spread = 0.75 + int(record.key[:4], 16) / 0x20000
    growing = min(timedelta(seconds=2.0 ** min(record.fence, 30)), LONGEST_WAIT) * spread
    return max(growing, asked or timedelta(0))


def _doubt(record: EffectRecord, why: str, now: datetime, wait: timedelta | None) -> Change:
    since = record.doubt_since or now
    if not record.keyed:
        return Change(S.IN_DOUBT, why, doubt_since=since)
    if not _remembered(record, since, now):
        return Change(S.IN_DOUBT, _forgotten(record, why), doubt_since=since)
    pause = wait if wait == timedelta(0) else wait_before(record, wait)
    return Change(S.PENDING, why, now + pause, since)


def _remembered(record: EffectRecord, since: datetime, now: datetime) -> bool:
    # A tenth is left for clocks that differ and for the try itself.
    return now < since + record.remembers * 0.9


def _forgotten(record: EffectRecord, why: str) -> str:
    return f"{why}; the receiver may have forgotten the key by now (it remembers it for {record.remembers})"
