"""Waits between attempts, and slices that wait for a person after the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, literal, select, update

from twice.core.ledger.record import Facts
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OF_TASK, OwnRows
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import IS_QUARANTINED, UtcTime, attempts, runs, slices
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs.claims import release
from twice.ledgers.runs.facts import learn
from twice.ledgers.runs.history import fence_of

_SET_ASIDE = select(runs.c.label, runs.c.quarantined).where(runs.c.task == OF_TASK, IS_QUARANTINED)
_SET_ASIDE_OF = _SET_ASIDE.where(runs.c.label.in_(bindparam("of_any", expanding=True)))


class SqlQuarantine(Records):
    """See `core.ports.Quarantine`."""

    @retrying_outages
    def postpone(self, attempt: str, until: datetime, note: str) -> None:
        with self._writing() as connection:
            fence = fence_of(connection, self._own, attempt)
            if fence is not None:
                _postpone(connection, fence, until, note)

    @retrying_outages
    def quarantine(self, attempt: str, note: str) -> bool:
        with self._writing() as connection:
            fence = fence_of(connection, self._own, attempt)
            return fence is not None and _quarantine(connection, fence, self._time(connection), note)

    @retrying_outages
    def lift(self, task: str, labels: Sequence[str]) -> None:
        with self._writing() as connection:
            _lift(connection, self._own, task, labels)

    @retrying_outages
    def quarantined(self, task: str, labels: Sequence[str] | None = None) -> Mapping[str, datetime]:
        of_task = {OF_TASK.key: self._own.key(task)}
        with self._reading() as connection:
            if labels is None:
                return _since(connection.execute(_SET_ASIDE, of_task))
            # Of a few slices: all runs of a task may be a hundred thousand.
            parts = (_since(connection.execute(_SET_ASIDE_OF, of_task | {"of_any": some})) for some in in_parts(labels))
            return {label: since for part in parts for label, since in part.items()}


def _postpone(connection: Connection, fence: int, until: datetime, note: str) -> None:
    """The run is tried again then; until then nobody holds its slices. Dying here leaves a wait that is not
    reported. A second call changes nothing."""
    connection.execute(update(attempts).where(attempts.c.fence == fence).values(retry_at=until))
    learn(connection, fence, Facts(notes=(note,)))
    release(connection, fence)


def _quarantine(connection: Connection, fence: int, now: datetime, note: str) -> bool:
    """Set aside the slices of an attempt, unless another one has begun on them since: False. Dying here leaves them
    free: they would be tried once more than wanted. A second call changes nothing."""
    of_attempt = select(slices.c.label).where(slices.c.fence == fence)
    task = select(attempts.c.task).where(attempts.c.fence == fence).scalar_subquery()
    still_last = (runs.c.task == task, runs.c.label.in_(of_attempt), runs.c.last_fence == fence)
    learn(connection, fence, Facts(notes=(note,)))
    release(connection, fence)
    set_aside = connection.execute(
        update(runs).where(*still_last).values(quarantined=func.coalesce(runs.c.quarantined, literal(now, UtcTime)))
    )
    return set_aside.rowcount > 0


def _lift(connection: Connection, own: OwnRows, task: str, labels: Sequence[str]) -> None:
    """A person wants them tried again. Dying here leaves all of them set aside, or none."""
    for label in sorted(labels):
        of_slice = (own.of(runs.c.task, task), runs.c.label == label)
        connection.execute(update(runs).where(*of_slice).values(quarantined=None))


def _since(rows: Iterable[Any]) -> dict[str, datetime]:
    return {row.label: row.quarantined for row in rows}
