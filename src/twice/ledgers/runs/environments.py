"""The environments on a ledger: the one part of it that looks beyond the environment it was opened for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, PrimaryKeyConstraint, Select, Table, Text, func, or_, select

from twice.core.backfill.result import BatchState
from twice.core.ledger.environment import (
    UNRESOLVED,
    AtWork,
    DroppedEnvironment,
    EnvironmentDrop,
    EnvironmentRecords,
    Unfinished,
)
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptState
from twice.core.ledger.record_owner import name_of
from twice.ledgers.database.effect_tables import effects
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import tasks
from twice.ledgers.database.schema import (
    IS_OPEN,
    NAME,
    UtcTime,
    attempts,
    backfills,
    batches,
    insert_or,
    leases,
    metadata,
    runs,
)
from twice.ledgers.database.transactions import Records
from twice.ledgers.effects.transitions import record_of
from twice.ledgers.runs.drop import STEPS
from twice.ledgers.runs.proofs import proofs

dropped = Table(
    "twice_dropped",
    metadata,
    Column("id", Text, nullable=False),
    Column("project", NAME, nullable=False),
    Column("environment", NAME, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    PrimaryKeyConstraint("id", name="twice_dropped_pk"),
)

T = TypeVar("T")

SHOWN = 5
"""So many of what keeps an environment are named."""

_UNRESOLVED = [state.value for state in UNRESOLVED]


class SqlEnvironments(Records):
    """`Ledger.environments` gives it."""

    @retrying_outages
    def listed(self) -> tuple[EnvironmentRecords, ...]:
        """Of every project, by project and name. Changes nothing."""
        with self._reading() as connection:
            return _counted(connection)

    @retrying_outages
    def dropped(self) -> tuple[DroppedEnvironment, ...]:
        """What was dropped from this ledger, the first one first."""
        with self._reading() as connection:
            found = connection.execute(select(dropped).order_by(dropped.c.at, dropped.c.id))
            return tuple(DroppedEnvironment(row.project, row.environment, row.at, row.by, row.reason) for row in found)

    @retrying_outages
    def unfinished(self, environment: str) -> Unfinished:
        """What keeps an environment of this project from being dropped now."""
        with self._reading() as connection:
            return _unfinished(connection, self._keys(connection, environment), self._time(connection))

    def drop(self, environment: str, decision: EnvironmentDrop) -> EnvironmentRecords | Unfinished | None:
        """Delete every record of an environment of this project; what there was of it. None: there was nothing.

        In many small transactions. Each first asks whether something of it is at work or unresolved, and then deletes
        nothing. Who decides it and why is kept before anything goes. Dying in between leaves the rest to the next call.
        """
        begun = self._part(environment, lambda connection, _: self._begin(connection, environment, decision))
        if begun is None or isinstance(begun, Unfinished):
            return begun
        for step in STEPS:
            while count := self._part(environment, step):
                if isinstance(count, Unfinished):
                    return replace(count, begun=True)
        return begun

    def _part(self, environment: str, step: Callable[[Connection, Sequence[str]], T]) -> T | Unfinished:
        """One transaction, made again where its reply was lost: then it deletes the next ones, or finds none."""

        def once(_: bool) -> T | Unfinished:
            with self._writing() as connection:
                keys = self._keys(connection, environment)
                found = _unfinished(connection, keys, self._time(connection))
                return found if found.any else step(connection, keys)

        return self._outage.outlive(once)

    def _begin(self, connection: Connection, environment: str, decision: EnvironmentDrop) -> EnvironmentRecords | None:
        project = self._own.owner.project
        mine = (tasks.c.project == project, tasks.c.environment == environment)
        found = next(iter(_counted(connection, *mine)), None)
        if found is not None:
            made = {**vars(decision), "project": project, "environment": environment, "at": self._time(connection)}
            connection.execute(insert_or(connection, dropped).on_conflict_do_nothing(), made)
        return found

    def _keys(self, connection: Connection, environment: str) -> list[str]:
        mine = (tasks.c.project == self._own.owner.project, tasks.c.environment == environment)
        return list(connection.execute(select(tasks.c.key).where(*mine).order_by(tasks.c.key)).scalars())


_ENVIRONMENT = (tasks.c.project, tasks.c.environment)
_WITH_TIMES: tuple[tuple[str, Table, tuple[Column[datetime], ...]], ...] = (
    ("slices", runs, (runs.c.published,)),
    ("attempts", attempts, (attempts.c.started, attempts.c.finished)),
    ("backfills", backfills, (backfills.c.created,)),
    ("proofs", proofs, (proofs.c.at,)),
)


def _counted(connection: Connection, *which: ColumnElement[bool]) -> tuple[EnvironmentRecords, ...]:
    """Of all environments, or of those whose tasks are these."""
    named = select(*_ENVIRONMENT, func.count()).where(*which).group_by(*_ENVIRONMENT)
    found = {(row[0], row[1]): EnvironmentRecords(*row) for row in connection.execute(named)}
    for what, table, written in _WITH_TIMES:
        times = [func.max(each) for each in written]
        for project, environment, count, *last in connection.execute(_of_each(table, which, func.count(), *times)):
            before = found[project, environment]
            newest = max(filter(None, (before.newest, *last)), default=None)
            found[project, environment] = replace(before, **{what: count}, newest=newest)
    for project, environment, count in connection.execute(_of_each(attempts, which, func.count()).where(IS_OPEN)):
        found[project, environment] = replace(found[project, environment], open=count)
    by_state = _of_each(effects, which, effects.c.state, func.count(), func.max(effects.c.changed))
    for project, environment, state, count, last in connection.execute(by_state.group_by(effects.c.state)):
        before = found[project, environment]
        counts = {**before.effects, EffectState(state): count}
        found[project, environment] = replace(before, effects=counts, newest=max(last, before.newest or last))
    return tuple(found[at] for at in sorted(found))


def _of_each(table: Table, which: Sequence[ColumnElement[bool]], *what: Any) -> Select[Any]:
    of_tasks = select(*_ENVIRONMENT, *what).join(table, table.c.task == tasks.c.key)
    return of_tasks.where(*which).group_by(*_ENVIRONMENT)


def _unfinished(connection: Connection, keys: Sequence[str], now: datetime) -> Unfinished:
    """Of the environment whose tasks have these keys."""
    at_work = (*_claimed_slices(connection, keys, now), *_claimed_batches(connection, keys, now))
    # Its rows may have landed, and nothing was sent: it is not known here whether anything is to be sent.
    landing = select(attempts.c.id).where(attempts.c.task.in_(keys), attempts.c.state == AttemptState.PUBLISHING.value)
    prepared = (effects.c.state == EffectState.PREPARED.value) & effects.c.attempt.in_(landing)
    unresolved = (effects.c.task.in_(keys), effects.c.state.in_(_UNRESOLVED) | prepared)
    counts = select(effects.c.state, func.count()).where(*unresolved).group_by(effects.c.state)
    by_state = {EffectState(state): count for state, count in connection.execute(counts)}
    first = select(effects).where(*unresolved).order_by(effects.c.id).limit(SHOWN)
    return Unfinished(at_work, by_state, tuple(record_of(row) for row in connection.execute(first)) if by_state else ())


def _claimed_slices(connection: Connection, keys: Sequence[str], now: datetime) -> tuple[AtWork, ...]:
    alive = (leases.c.task.in_(keys), leases.c.until > now)
    held = (
        select(leases.c.task, leases.c.label, attempts.c.holder, leases.c.until)
        .join(attempts, attempts.c.fence == leases.c.fence)
        .where(*alive)
        .order_by(leases.c.task, leases.c.label)
        .limit(SHOWN)
    )
    return tuple(AtWork(f"{name_of(row.task)}[{row.label}]", row.holder, row.until) for row in connection.execute(held))


def _claimed_batches(connection: Connection, keys: Sequence[str], now: datetime) -> tuple[AtWork, ...]:
    """Also those of another environment's task, in a plan that would be deleted."""
    plans = select(backfills.c.name).where(backfills.c.task.in_(keys))
    alive = (batches.c.state == BatchState.CLAIMED.value, batches.c.until > now)
    held = (
        select(batches)
        .where(*alive, or_(batches.c.task.in_(keys), batches.c.backfill.in_(plans)))
        .order_by(batches.c.backfill, batches.c.number)
        .limit(SHOWN)
    )
    return tuple(
        AtWork(f"batch {row.number} of backfill {name_of(row.backfill)}", row.holder, row.until)
        for row in connection.execute(held)
    )
