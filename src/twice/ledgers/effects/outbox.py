"""The outbox of a ledger: effects to send, effects that were sent, and by whom.

Effects are prepared, released and cancelled with their attempt, in the ledger's own transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, func, select

from twice.core.effect import Message
from twice.core.ledger.outbox import Change, EffectEvent, EffectRecord, EffectState, PreparedEffect
from twice.ledgers.database.effect_tables import COUNTS, effects
from twice.ledgers.database.own_rows import tasks
from twice.ledgers.database.transactions import Records
from twice.ledgers.effects import transitions as rows
from twice.ledgers.effects.transitions import EffectStep

S = EffectState


class SqlOutbox(Records):
    """See `core.ports.Outbox`. `Ledger.outbox` gives it."""

    def render(self, effect: EffectRecord, message: Message, who: str) -> bool:
        rendered = Change(S.PENDING, "rendered", due=effect.changed)
        return self._move(effect, EffectStep((S.RELEASED,), rendered, who, message=message))

    def begin(self, effect: EffectRecord, sender: str, lease: timedelta) -> EffectRecord | None:
        with self._writing() as connection:
            now = self._time(connection)
            begun = rows.begin(connection, effect.id, sender, now, now + lease)
            return None if begun is None else self._as_declared(begun)

    def holds(self, effect: EffectRecord) -> bool:
        mine = (effects.c.id == effect.id, effects.c.state == S.SENDING.value, effects.c.fence == effect.fence)
        return bool(self._chosen(*mine))

    def end(self, effect: EffectRecord, change: Change, who: str) -> bool:
        before = (S.SENDING, S.IN_DOUBT, S.PENDING) if change.state is S.SENT else (S.SENDING, S.IN_DOUBT)
        return self._move(effect, EffectStep(before, change, who, effect.fence))

    def change(self, effect: EffectRecord, change: Change, who: str) -> bool:
        return self._move(effect, EffectStep((effect.state,), change, who, effect.fence))

    def remember_unknown(self, task: str, wanted: Sequence[PreparedEffect]) -> int:
        def remember(_: bool) -> int:
            with self._writing() as connection:
                self._own.register(connection, [task])
                return rows.remember_unknown(connection, self._own.key(task), wanted, self._time(connection))

        return self._outage.outlive(remember)

    def find(self, id_: int) -> EffectRecord | None:
        return next(iter(self._chosen(effects.c.id == id_)), None)

    def events(self, id_: int) -> tuple[EffectEvent, ...]:
        return self._read(lambda connection: rows.read_events(connection, id_)) if self.find(id_) else ()

    def of_attempt(self, attempt: str) -> tuple[EffectRecord, ...]:
        return self._chosen(effects.c.attempt == attempt)

    def last_counted(self, task: str, label: str, name: str) -> EffectRecord | None:
        of_slice = (self._own.of(effects.c.task, task), effects.c.label == label, effects.c.name == name)
        newest = select(func.max(effects.c.id)).where(*of_slice, COUNTS).scalar_subquery()
        return next(iter(self._chosen(effects.c.id == newest)), None)

    def table_of(self, effect: EffectRecord) -> str:
        of_effect = select(tasks.c.target).join(effects, effects.c.task == tasks.c.key).where(effects.c.id == effect.id)
        return str(self._read(lambda connection: connection.execute(of_effect).scalar_one_or_none()) or "")

    def in_state(self, state: EffectState, task: str | None = None) -> tuple[EffectRecord, ...]:
        return self._chosen(effects.c.state == state.value, self._of(task))

    def due(self, task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        pending = (effects.c.state == S.PENDING.value, self._of(task))
        return self._found(
            lambda connection: rows.read(connection, *pending, effects.c.due <= self._time(connection), limit=limit)
        )

    def silent(self, task: str | None) -> tuple[EffectRecord, ...]:
        sending = (effects.c.state == S.SENDING.value, self._of(task))
        return self._found(
            lambda connection: rows.read(connection, *sending, effects.c.until <= self._time(connection))
        )

    def next_due(self, task: str | None) -> datetime | None:
        pending = (effects.c.state == S.PENDING.value, self._of(task))
        found = select(effects.c.due).where(*pending).order_by(effects.c.due).limit(1)
        return self._read(lambda connection: connection.execute(found).scalar_one_or_none())

    def listed(self, states: Sequence[EffectState], task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        chosen = [effects.c.state.in_([state.value for state in states])] if states else []
        found = select(effects).where(*chosen, self._of(task)).order_by(effects.c.id.desc()).limit(limit)
        return self._found(lambda connection: tuple(rows.record_of(row) for row in connection.execute(found)))

    def counts(self, task: str | None = None) -> Mapping[EffectState, int]:
        found = select(effects.c.state, func.count()).where(self._of(task)).group_by(effects.c.state)
        return self._read(lambda connection: {EffectState(state): count for state, count in connection.execute(found)})

    def _move(self, effect: EffectRecord, step: EffectStep) -> bool:
        """Made again after a lost reply: then it is False if the first one happened, and the change is there."""

        def move(_: bool) -> bool:
            with self._writing() as connection:
                return rows.move(connection, effect.id, step, self._time(connection))

        return self._outage.outlive(move)

    def _chosen(self, *where: ColumnElement[bool]) -> tuple[EffectRecord, ...]:
        return self._found(lambda connection: rows.read(connection, self._of(None), *where))

    def _found(self, question: Callable[[Connection], tuple[EffectRecord, ...]]) -> tuple[EffectRecord, ...]:
        return tuple(self._as_declared(effect) for effect in self._read(question))

    def _as_declared(self, effect: EffectRecord) -> EffectRecord:
        return replace(effect, task=self._own.owner.task_of(effect.task))

    def _of(self, task: str | None) -> ColumnElement[bool]:
        """Also effects of a table that the task does not write any more: it was published, and they are to be sent."""
        return self._own.of_any_table(effects.c.task, task)
