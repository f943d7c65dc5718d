"""The outbox of a ledger: effects to send, effects that were sent, and by whom.

Effects are prepared, released and cancelled with their attempt, in the ledger's own transactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Integer, Select, bindparam, func, select

from twice.core.effect import Message
from twice.core.ledger.outbox import Change, EffectEvent, EffectRecord, EffectState, PreparedEffect
from twice.ledgers.database.effect_tables import COUNTS, effects
from twice.ledgers.database.own_rows import OF_TASK, in_any_table, tasks
from twice.ledgers.database.transactions import Records
from twice.ledgers.effects import transitions as rows
from twice.ledgers.effects.transitions import EffectStep

S = EffectState


@cache
def _own(of_one_task: bool = False) -> Select[Any]:
    """Also effects of a table that the task does not write any more: it was published, and they are to be sent."""
    return select(effects).where(in_any_table(effects.c.task, of_one_task)).order_by(effects.c.id)


@cache
def _in_state(of_one_task: bool) -> Select[Any]:
    return _own(of_one_task).where(effects.c.state == bindparam("in_state"))


@cache
def _newest(of_one_task: bool) -> Select[Any]:
    return _backwards(_own(of_one_task))


@cache
def _newest_in_state(of_one_task: bool) -> Select[Any]:
    return _backwards(_in_state(of_one_task))


def _backwards(which: Select[Any]) -> Select[Any]:
    return which.order_by(None).order_by(effects.c.id.desc()).limit(bindparam("most", type_=Integer))


@cache
def _due(of_one_task: bool) -> Select[Any]:
    return _in_state(of_one_task).where(effects.c.due <= bindparam("now")).limit(bindparam("most", type_=Integer))


@cache
def _silent(of_one_task: bool) -> Select[Any]:
    return _in_state(of_one_task).where(effects.c.until <= bindparam("now"))


@cache
def _next_due(of_one_task: bool) -> Select[Any]:
    soonest = _in_state(of_one_task).with_only_columns(effects.c.due).order_by(None)
    return soonest.order_by(effects.c.due).limit(1)


_FOUND = _own().where(effects.c.id == bindparam("effect"))
_HELD = _FOUND.where(effects.c.state == S.SENDING.value, effects.c.fence == bindparam("of_try"))
_OF_ATTEMPT = _own().where(effects.c.attempt == bindparam("of_attempt"))
_LAST_COUNTED = _own().where(
    effects.c.id
    == select(func.max(effects.c.id))
    .where(effects.c.task == OF_TASK, effects.c.label == bindparam("of"), effects.c.name == bindparam("named"), COUNTS)
    .scalar_subquery()
)


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
        return bool(self._chosen(_HELD, effect=effect.id, of_try=effect.fence))

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
        return next(iter(self._chosen(_FOUND, effect=id_)), None)

    def events(self, id_: int) -> tuple[EffectEvent, ...]:
        return self._read(lambda connection: rows.read_events(connection, id_)) if self.find(id_) else ()

    def of_attempt(self, attempt: str) -> tuple[EffectRecord, ...]:
        return self._chosen(_OF_ATTEMPT, of_attempt=attempt)

    def last_counted(self, task: str, label: str, name: str) -> EffectRecord | None:
        of_slice = {OF_TASK.key: self._own.key(task), "of": label, "named": name}
        return next(iter(self._chosen(_LAST_COUNTED, **of_slice)), None)

    def table_of(self, effect: EffectRecord) -> str:
        of_effect = select(tasks.c.target).join(effects, effects.c.task == tasks.c.key).where(effects.c.id == effect.id)
        return str(self._read(lambda connection: connection.execute(of_effect).scalar_one_or_none()) or "")

    def in_state(self, state: EffectState, task: str | None = None) -> tuple[EffectRecord, ...]:
        return self._chosen(_in_state(task is not None), task, in_state=state.value)

    def due(self, task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        return self._chosen_by_now(_due(task is not None), task, in_state=S.PENDING.value, most=limit)

    def not_reporting(self, task: str | None) -> tuple[EffectRecord, ...]:
        return self._chosen_by_now(_silent(task is not None), task, in_state=S.SENDING.value)

    def next_due(self, task: str | None) -> datetime | None:
        pending = self._own.any_table(task) | {"in_state": S.PENDING.value}
        return self._read(
            lambda connection: connection.execute(_next_due(task is not None), pending).scalar_one_or_none()
        )

    def listed(self, states: Sequence[EffectState], task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        def newest(connection: Connection) -> list[EffectRecord]:
            if not states:
                return list(self._found(connection, _newest(task is not None), task, most=limit))
            # State by state, each down its index: of several at once every effect would be sorted.
            in_state, chosen = _newest_in_state(task is not None), dict.fromkeys(state.value for state in states)
            parts = (self._found(connection, in_state, task, most=limit, in_state=state) for state in chosen)
            return [effect for part in parts for effect in part]

        return tuple(sorted(self._read(newest), key=lambda effect: effect.id, reverse=True)[:limit])

    def counts(self, task: str | None = None) -> Mapping[EffectState, int]:
        mine = self._own.of_any_table(effects.c.task, task)
        found = select(effects.c.state, func.count()).where(mine).group_by(effects.c.state)
        return self._read(lambda connection: {EffectState(state): count for state, count in connection.execute(found)})

    def _move(self, effect: EffectRecord, step: EffectStep) -> bool:
        """Made again after a lost reply: then it is False if the first one happened, and the change is there."""

        def move(_: bool) -> bool:
            with self._writing() as connection:
                return rows.move(connection, effect.id, step, self._time(connection))

        return self._outage.outlive(move)

    def _chosen(self, which: Select[Any], task: str | None = None, **values: Any) -> tuple[EffectRecord, ...]:
        return self._read(lambda connection: self._found(connection, which, task, **values))

    def _chosen_by_now(self, which: Select[Any], task: str | None, **values: Any) -> tuple[EffectRecord, ...]:
        return self._read(lambda connection: self._found(connection, which, task, now=self._time(connection), **values))

    def _found(
        self, connection: Connection, which: Select[Any], task: str | None, **values: Any
    ) -> tuple[EffectRecord, ...]:
        found = connection.execute(which, self._own.any_table(task) | values)
        return tuple(self._as_declared(rows.record_of(row)) for row in found)

    def _as_declared(self, effect: EffectRecord) -> EffectRecord:
        return replace(effect, task=self._own.owner.task_of(effect.task))
