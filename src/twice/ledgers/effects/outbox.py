"""The outbox of a ledger: what is to be said, what was said, and by whom. `Ledger.outbox` gives it.

Every method is one transaction, as in store.py. What is prepared, released and cancelled moves with the attempt, in
the ledger's own transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, func, select

from twice.core.effect import Message
from twice.core.outbox import Change, EffectEvent, EffectRecord, EffectState, Prepared
from twice.ledgers.database.effect_tables import COUNTS, effects
from twice.ledgers.database.outage import Outage
from twice.ledgers.database.owners import Owner, tasks
from twice.ledgers.effects import transitions as rows

S = EffectState
T = TypeVar("T")
Transaction = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True)
class Outbox:
    reading: Transaction
    writing: Transaction
    time: Callable[[Connection], datetime]
    outage: Outage
    owner: Owner

    def render(self, effect: EffectRecord, message: Message, who: str) -> bool:
        """released -> pending, with the very bytes that every try will send. False, and the stored ones stay, if
        another process was first. Dying before it leaves the effect released: the next run renders it."""
        return self._move(
            effect, (S.RELEASED,), Change(S.PENDING, "rendered", due=effect.changed), who, message=message
        )

    def begin(self, effect: EffectRecord, sender: str, lease: timedelta) -> EffectRecord | None:
        """pending -> sending, committed before the first byte leaves. None if another process has it, or it is not
        due any more. Dying after it leaves `sending`, which others judge when the lease is over. It is not made again
        after a lost reply: nobody could tell its own try from another's."""
        with self.writing() as connection:
            now = self.time(connection)
            return rows.begin(connection, effect.id, sender, now, now + lease)

    def holds(self, effect: EffectRecord) -> bool:
        """Whether this very try may still go on: nobody has judged it silent."""
        mine = (effects.c.id == effect.id, effects.c.state == S.SENDING.value, effects.c.fence == effect.fence)
        return bool(self._read(*mine))

    def end(self, effect: EffectRecord, change: Change, who: str) -> bool:
        """How a try ended, by the word of its own sender: that also settles the doubt of those who judged it silent.
        False if a newer try has begun or a person has spoken. Dying before it leaves `sending`."""
        before = (S.SENDING, S.IN_DOUBT, S.PENDING) if change.state is S.SENT else (S.SENDING, S.IN_DOUBT)
        return self._move(effect, before, change, who, fence=effect.fence)

    def change(self, effect: EffectRecord, change: Change, who: str) -> bool:
        """Any other step, from the state and the try that the caller saw."""
        return self._move(effect, (effect.state,), change, who, fence=effect.fence)

    def remember_unknown(self, task: str, wanted: Sequence[Prepared]) -> int:
        """After a ledger was lost: slices are published, and nobody remembers what was said of them. These effects
        are never sent by themselves. How many there are; a second call adds none."""

        def remember(_: bool) -> int:
            with self.writing() as connection:
                self.owner.register(connection, [task])
                return rows.remember_unknown(connection, self.owner.key(task), wanted, self.time(connection))

        return self.outage.outlive(remember)

    def find(self, id_: int) -> EffectRecord | None:
        return next(iter(self._read(effects.c.id == id_)), None)

    def events(self, id_: int) -> tuple[EffectEvent, ...]:
        return self._ask(lambda connection: rows.read_events(connection, id_)) if self.find(id_) else ()

    def of_attempt(self, attempt: str) -> tuple[EffectRecord, ...]:
        return self._read(effects.c.attempt == attempt)

    def said(self, task: str, label: str, name: str) -> EffectRecord | None:
        """The last one that counts, for this slice and this name."""
        of_slice = (self.owner.of(effects.c.task, task), effects.c.label == label, effects.c.name == name)
        newest = select(func.max(effects.c.id)).where(*of_slice, COUNTS).scalar_subquery()
        return next(iter(self._read(effects.c.id == newest)), None)

    def table_of(self, effect: EffectRecord) -> str:
        """Of which table it speaks, as the ledger calls it ("": it has no name there). Its task may write another
        one by now."""
        of_effect = select(tasks.c.target).join(effects, effects.c.task == tasks.c.key).where(effects.c.id == effect.id)
        return str(self._ask(lambda connection: connection.execute(of_effect).scalar_one_or_none()) or "")

    def in_state(self, state: EffectState, task: str | None = None) -> tuple[EffectRecord, ...]:
        """Oldest first."""
        return self._read(effects.c.state == state.value, self._of(task))

    def due(self, task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        """Pending effects whose time has come, oldest first."""
        pending = (effects.c.state == S.PENDING.value, self._of(task))
        return self._ask(
            lambda connection: rows.read(connection, *pending, effects.c.due <= self.time(connection), limit=limit)
        )

    def silent(self, task: str | None) -> tuple[EffectRecord, ...]:
        """Effects whose sender's lease ran out while it was sending."""
        sending = (effects.c.state == S.SENDING.value, self._of(task))
        return self._ask(lambda connection: rows.read(connection, *sending, effects.c.until <= self.time(connection)))

    def next_due(self, task: str | None) -> datetime | None:
        """When the next pending effect may be tried."""
        pending = (effects.c.state == S.PENDING.value, self._of(task))
        found = select(effects.c.due).where(*pending).order_by(effects.c.due).limit(1)
        return self._ask(lambda connection: connection.execute(found).scalar_one_or_none())

    def listed(self, states: Sequence[EffectState], task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        """Newest first; without states, all of them."""
        chosen = [effects.c.state.in_([state.value for state in states])] if states else []
        found = select(effects).where(*chosen, self._of(task)).order_by(effects.c.id.desc()).limit(limit)
        return self._ask(lambda connection: tuple(rows.record_of(row) for row in connection.execute(found)))

    def counts(self, task: str | None = None) -> Mapping[EffectState, int]:
        found = select(effects.c.state, func.count()).where(self._of(task)).group_by(effects.c.state)
        return self._ask(lambda connection: {EffectState(state): count for state, count in connection.execute(found)})

    def _move(
        self,
        effect: EffectRecord,
        before: Sequence[EffectState],
        change: Change,
        who: str,
        *,
        fence: int | None = None,
        message: Message | None = None,
    ) -> bool:
        """Made again after a lost reply: then it says False if the first one happened, and the change is there."""

        def move(_: bool) -> bool:
            with self.writing() as connection:
                now = self.time(connection)
                return rows.move(connection, effect.id, before, change, who, now, fence=fence, message=message)

        return self.outage.outlive(move)

    def _read(self, *where: ColumnElement[bool]) -> tuple[EffectRecord, ...]:
        return self._ask(lambda connection: rows.read(connection, self._of(None), *where))

    def _of(self, task: str | None) -> ColumnElement[bool]:
        """Also what a task says of a table that it does not write any more: it was published, and is to be said."""
        return self.owner.of_any_table(effects.c.task, task)

    def _ask(self, question: Callable[[Connection], T]) -> T:
        def ask(_: bool) -> T:
            with self.reading() as connection:
                return question(connection)

        return self.outage.outlive(ask)
