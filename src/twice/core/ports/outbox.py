"""The outbox of a ledger: effects to send, and what became of each. Every one passes tests/contracts/outbox_suite.py.

Effects are prepared, released and cancelled with their attempt, by the ledger's own methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from twice.core.effect import Message
from twice.core.ledger.outbox import Change, EffectRecord, EffectState, Prepared


class Outbox(Protocol):
    def render(self, effect: EffectRecord, message: Message, who: str) -> bool:
        """released -> pending, with the very bytes that every try will send. False, and the stored ones stay, if
        another process was first. Dying before it leaves the effect released: the next run renders it."""

    def begin(self, effect: EffectRecord, sender: str, lease: timedelta) -> EffectRecord | None:
        """pending -> sending, committed before the first byte leaves. None if another process has it, or it is not
        due any more. Dying after it leaves `sending`, which others settle when the lease is over. It is not made again
        after a lost reply: its own try could not be distinguished from another's."""

    def holds(self, effect: EffectRecord) -> bool:
        """Whether this very try may still go on: no other process has settled it as silent."""

    def end(self, effect: EffectRecord, change: Change, who: str) -> bool:
        """How a try ended, as its own sender reports it: that also settles the doubt of those who found it silent.
        False if a newer try has begun or a person has decided. Dying before it leaves `sending`."""

    def change(self, effect: EffectRecord, change: Change, who: str) -> bool:
        """Any other step, from the state and the try that the caller saw."""

    def remember_unknown(self, task: str, wanted: Sequence[Prepared]) -> int:
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

    def silent(self, task: str | None) -> tuple[EffectRecord, ...]:
        """Effects whose sender's lease ran out while it was sending."""

    def next_due(self, task: str | None) -> datetime | None:
        """When the next pending effect may be tried."""

    def listed(self, states: Sequence[EffectState], task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        """Newest first; without states, all of them."""
