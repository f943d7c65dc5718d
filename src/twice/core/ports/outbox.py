"""Effects on their way out: the outbox of a ledger, with what became of each, and the senders, one for each kind of
receiver. Every outbox passes tests/contracts/outbox_suite.py, every sender tests/integration/senders.

Effects are prepared, released and cancelled with their attempt, by the ledger's own methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from twice.core.effect import Effect, Message, PublishedSlice
from twice.core.ledger.outbox import Answer, Change, EffectRecord, EffectState, PreparedEffect


class Outbox(Protocol):
    def render(self, effect: EffectRecord, message: Message, who: str) -> bool:
        """released -> pending, with the very bytes that every try will send. False, and the stored ones stay, if
        another process was first. Dying before it leaves the effect released: the next run renders it."""

    def begin(self, effect: EffectRecord, sender: str, lease: timedelta) -> EffectRecord | None:
        """pending -> sending, committed before the first byte leaves. None if another process has it, or it is not
        due any more. Dying after it leaves `sending`, which others settle when the lease is over. It is not made again
        after a lost reply: its own try could not be distinguished from another's."""

    def holds(self, effect: EffectRecord) -> bool:
        """Whether this very try may still go on: no other process has settled it as lost."""

    def end(self, effect: EffectRecord, change: Change, who: str) -> bool:
        """How a try ended, as its own sender reports it: that also settles the doubt of those who took it for lost.
        False if a newer try has begun or a person has decided. Dying before it leaves `sending`."""

    def change(self, effect: EffectRecord, change: Change, who: str) -> bool:
        """Any other step, from the state and the try that the caller saw."""

    def remember_unknown(self, task: str, wanted: Sequence[PreparedEffect]) -> int:
        """After a ledger was lost: slices are published, and what was sent of them is not on record. These effects
        are never sent by themselves. How many there are; a second call adds none."""

    def find(self, id_: int) -> EffectRecord | None: ...

    def of_attempt(self, attempt: str) -> tuple[EffectRecord, ...]: ...

    def last_counted(self, task: str, label: str, name: str) -> EffectRecord | None:
        """The last one that counts, for this slice and this name."""

    def table_of(self, effect: EffectRecord) -> str:
        """Of which table it is, as the ledger calls it ("": it has no name there). Its task may write another one by
        now."""

    def in_state(self, state: EffectState, task: str | None = None) -> tuple[EffectRecord, ...]:
        """Oldest first."""

    def due(self, task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        """Pending effects whose time has come, oldest first."""

    def not_reporting(self, task: str | None) -> tuple[EffectRecord, ...]:
        """Effects whose sender's lease ran out while it was sending."""

    def next_due(self, task: str | None) -> datetime | None:
        """When the next pending effect may be tried."""

    def listed(self, states: Sequence[EffectState], task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        """Newest first; without states, all of them."""


class NotLeaving(Exception):
    """This try may not go on: it stopped reporting, and others have settled it. Nothing was sent."""


@dataclass(frozen=True)
class OutgoingMessage:
    """What one try sends. `function` only where the effect is a call."""

    key: str
    keyed: bool
    message: Message
    function: Callable[[PublishedSlice, str], Any] | None = None


class Sender(Protocol):
    """One kind of receiver. A try is one request: no retries of its own, no redirects, and an end in time."""

    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:
        """The very bytes that every try sends. Calls the user's functions; changes nothing."""

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        """Send it once and distinguish: accepted, surely refused, in doubt. `leaving` is called when the next thing
        is the first byte (or what the receiver acts on); if it raises NotLeaving, nothing is sent. No secret is in
        the answer. Dying in here leaves doubt."""
