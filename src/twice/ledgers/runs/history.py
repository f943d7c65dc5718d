"""Reading attempts: rows become records, and keys of tasks their names; which generations of a slice attempts aimed at,
and at which versions of the table they published.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, Integer, Select, and_, bindparam, exists, func, select, union

from twice.core.audit import AuditResult
from twice.core.ledger.record import (
    OVERWROTE,
    AttemptRecord,
    AttemptState,
    InputRecord,
    KnownVersions,
    PublishRecord,
    SliceRecord,
    aim_of,
)
from twice.core.ledger.record_owner import TaskTable
from twice.core.table.token import Intention
from twice.core.write import Changes
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OF_TASK, OwnRows, in_any_table, tasks
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import HAS_LEFTOVERS, IS_OPEN, attempts, audits, inputs, leases, runs, slices
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs.publishes import read_versions

_STATES = {state.value: state for state in AttemptState}


class Chosen(NamedTuple):
    """Attempts: a statement, and what it is executed with."""

    rows: Select[Any]
    values: Mapping[str, Any] = {}


class SqlAttemptHistory(Records):
    """See `core.ports.AttemptHistory`."""

    @retrying_outages
    def attempt(self, attempt: str, task: str | None = None) -> AttemptRecord | None:
        with self._reading() as connection:
            return next(iter(read_attempts(connection, self._own, named(self._own, attempt, task))), None)

    @retrying_outages
    def attempts(self, task: str, label: str | None = None, limit: int = 50) -> tuple[AttemptRecord, ...]:
        """Newest first."""
        with self._reading() as connection:
            return read_attempts(connection, self._own, newest(self._own, task, label, limit))

    @retrying_outages
    def open_attempts(self, task: str | None = None, labels: Sequence[str] | None = None) -> tuple[AttemptRecord, ...]:
        with self._reading() as connection:
            found = read_attempts(connection, self._own, still_open(self._own, task))
        # Filtered here: few attempts are open, but a backfill may ask for more labels than a statement can carry.
        wanted = None if labels is None else set(labels)
        return tuple(a for a in found if wanted is None or any(s.label in wanted for s in a.slices))

    @retrying_outages
    def undiscarded(self, task: str | None = None) -> tuple[AttemptRecord, ...]:
        with self._reading() as connection:
            return read_attempts(connection, self._own, with_leftovers(self._own, task))


_MOST = bindparam("most", type_=Integer)
_IN_ORDER = select(attempts).order_by(attempts.c.fence)
_OPEN = _IN_ORDER.where(IS_OPEN)
_LEFTOVER = _IN_ORDER.where(HAS_LEFTOVERS)
_NAMED = select(attempts).where(attempts.c.id == bindparam("named"))

_ATTEMPT_OF_TASK = attempts.c.task == OF_TASK
_OPEN_OF_TASK = _OPEN.where(_ATTEMPT_OF_TASK)
_LEFTOVER_OF_TASK = _LEFTOVER.where(_ATTEMPT_OF_TASK)
_NAMED_OF_TASK = _NAMED.where(_ATTEMPT_OF_TASK)
_NAMED_OF_ANY = _NAMED.where(in_any_table(attempts.c.task))
_NEWEST_OF_TASK = select(attempts).where(_ATTEMPT_OF_TASK).order_by(attempts.c.fence.desc()).limit(_MOST)
_NEWEST_OF_SLICE = (
    select(attempts)
    .join(slices, slices.c.fence == attempts.c.fence)
    .where(slices.c.task == OF_TASK, slices.c.label == bindparam("of"))
    .order_by(slices.c.fence.desc())
    .limit(_MOST)
)


def named(own: OwnRows, attempt: str, task: str | None = None) -> Chosen:
    if task is None:
        return Chosen(_NAMED_OF_ANY, own.any_table() | {"named": attempt})
    return Chosen(_NAMED_OF_TASK, {OF_TASK.key: own.key(task), "named": attempt})


def fence_of(connection: Connection, own: OwnRows, attempt: str) -> int | None:
    found = connection.execute(*named(own, attempt)).one_or_none()
    return None if found is None else int(found.fence)


def still_open(own: OwnRows, task: str | None) -> Chosen:
    if task is None:
        return Chosen(_OPEN.where(own.of(attempts.c.task, None)))
    return Chosen(_OPEN_OF_TASK, {OF_TASK.key: own.key(task)})


def with_leftovers(own: OwnRows, task: str | None) -> Chosen:
    if task is None:
        return Chosen(_LEFTOVER.where(own.of(attempts.c.task, None)))
    return Chosen(_LEFTOVER_OF_TASK, {OF_TASK.key: own.key(task)})


def newest(own: OwnRows, task: str, label: str | None, limit: int) -> Chosen:
    """Newest first."""
    if label is None:
        return Chosen(_NEWEST_OF_TASK, {OF_TASK.key: own.key(task), "most": limit})
    return Chosen(_NEWEST_OF_SLICE, {OF_TASK.key: own.key(task), "of": label, "most": limit})


def tables_left_open(connection: Connection, own: OwnRows) -> tuple[tuple[str, TaskTable], ...]:
    """Where declared tasks wrote before they were given another table, if an attempt there is still open, or was given
    up with rows still staged: it may land after that."""
    elsewhere = select(attempts.c.task).where(own.of_any_table(attempts.c.task), ~own.of(attempts.c.task, None))
    # Not with OR: each of the two has an index of its own.
    keys = connection.execute(union(elsewhere.where(IS_OPEN), elsewhere.where(HAS_LEFTOVERS))).scalars().all()
    found = connection.execute(select(tasks).where(tasks.c.key.in_(keys)).order_by(tasks.c.key))
    return tuple((own.owner.task_of(row.key), _left(own, row)) for row in found)


def _left(own: OwnRows, row: Any) -> TaskTable:
    names = own.owner.names_of(own.owner.task_of(row.key))
    return TaskTable(row.environment, row.target, names=names, kept_as=row.name)


def read_attempts(connection: Connection, own: OwnRows, chosen: Chosen) -> tuple[AttemptRecord, ...]:
    """The chosen attempts with everything known of them, in their order."""
    records: list[AttemptRecord] = []
    for some in in_parts(connection.execute(*chosen).all()):
        found = _parts_of(connection, [row.fence for row in some])
        records += (_attempt_record(row, own.owner.task_of(row.task), found[row.fence]) for row in some)
    return tuple(records)


_FENCES: BindParameter[int] = bindparam("fences", expanding=True)
_LEASE_OF_SLICE = and_(
    leases.c.task == slices.c.task, leases.c.label == slices.c.label, leases.c.fence == slices.c.fence
)
_SLICES = (
    select(slices, leases.c.until)
    .outerjoin(leases, _LEASE_OF_SLICE)
    .where(slices.c.fence.in_(_FENCES))
    .order_by(slices.c.label)
)
_INPUTS = select(inputs).where(inputs.c.fence.in_(_FENCES)).order_by(inputs.c.position)
_AUDITS = select(audits).where(audits.c.fence.in_(_FENCES)).order_by(audits.c.position)


@dataclass
class _Parts:
    """What other tables hold of one attempt."""

    slices: list[SliceRecord] = field(default_factory=list)
    leases: list[datetime | None] = field(default_factory=list)
    inputs: list[InputRecord] = field(default_factory=list)
    audits: list[AuditResult] = field(default_factory=list)

    @property
    def lease_until(self) -> datetime | None:
        """When the first lease runs out. With one slice taken over it is lost, even if others are still in its name."""
        held = [until for until in self.leases if until is not None]
        return min(held) if held and len(held) == len(self.leases) else None


def _parts_of(connection: Connection, fences: Sequence[int]) -> Mapping[int, _Parts]:
    found: dict[int, _Parts] = defaultdict(_Parts)
    chosen = {_FENCES.key: fences}
    for row in connection.execute(_SLICES, chosen):
        found[row.fence].slices.append(_slice_record(row))
        found[row.fence].leases.append(row.until)
    for row in connection.execute(_INPUTS, chosen):
        found[row.fence].inputs.append(input_record(row))
    for row in connection.execute(_AUDITS, chosen):
        found[row.fence].audits.append(AuditResult(row.name, row.severity, row.passed, row.message))
    return found


def _slice_record(row: Any) -> SliceRecord:
    intention = None if row.code_hash is None else Intention(row.code_hash, row.inputs_hash)
    return SliceRecord(row.label, row.expected, intention, row.rows, row.fingerprint, row.aim)


def _attempt_record(row: Any, task: str, parts: _Parts) -> AttemptRecord:
    return AttemptRecord(
        id=row.id,
        task=task,
        kind=row.kind,
        state=_STATES[row.state],
        fence=row.fence,
        holder=row.holder,
        started=row.started,
        finished=row.finished,
        lease_until=parts.lease_until,
        slices=tuple(parts.slices),
        inputs=tuple(parts.inputs),
        audits=tuple(parts.audits),
        why=row.why,
        version=row.version,
        notes=tuple(json.loads(row.notes or "[]")),
        seconds=json.loads(row.seconds or "{}"),
        error=None if row.error is None else json.loads(row.error),
        discarded=row.discarded,
        changes=None if row.changes is None else Changes(**json.loads(row.changes)),
        retry_at=row.retry_at,
    )


def _publish_record(row: Any) -> PublishRecord:
    changes = None if row.changes is None else Changes(**json.loads(row.changes))
    return PublishRecord(
        row.label,
        row.fence,
        row.version,
        row.expected,
        aim_of(row.expected or 0, row.aim),
        row.fingerprint,
        Changes() if row.kind == "reset" else changes,
        row.overwrote,
    )


def input_record(row: Any) -> InputRecord:
    return InputRecord(row.label, row.kind, row.name, row.identity, row.version)


_FROZEN_AIM = (
    select(slices.c.aim)
    .where(slices.c.task == OF_TASK, slices.c.label == bindparam("of"), slices.c.expected == bindparam("found"))
    .where(slices.c.aim > slices.c.expected)
    .order_by(slices.c.fence)
    .limit(1)
)
_LAST_VERSION = select(func.max(runs.c.version)).where(runs.c.task == OF_TASK)
_PUBLISHERS = (
    select(runs.c.label, attempts.c.fence).join(attempts, attempts.c.id == runs.c.attempt).where(runs.c.task == OF_TASK)
)

_OVER_OTHERS = exists().where(
    inputs.c.fence == slices.c.fence, inputs.c.label == slices.c.label, inputs.c.kind == OVERWROTE
)
_PUBLISHES = (
    select(slices, attempts.c.version, attempts.c.kind, attempts.c.changes, _OVER_OTHERS.label("overwrote"))
    .join(attempts, attempts.c.fence == slices.c.fence)
    .where(slices.c.task == OF_TASK, attempts.c.state == AttemptState.PUBLISHED.value)
    .order_by(slices.c.fence)
)
_WITHOUT_INPUTS = (
    select(runs.c.label, attempts.c.changes)
    .outerjoin(attempts, attempts.c.id == runs.c.attempt)
    .where(runs.c.task == OF_TASK, runs.c.generation > 0, runs.c.code_hash.is_not(None), runs.c.inputs_hash.is_(None))
)


class SqlGenerationHistory(Records):
    """See `core.ports.GenerationHistory`."""

    @retrying_outages
    def frozen_aim(self, task: str, label: str, expected: int) -> int | None:
        of_slice = {OF_TASK.key: self._own.key(task), "of": label}
        with self._reading() as connection:
            return connection.execute(_FROZEN_AIM, of_slice | {"found": expected}).scalar_one_or_none()

    @retrying_outages
    def furthest_aim(self, task: str, label: str, last: int) -> int | None:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.aim <= last)
        published = attempts.c.state == AttemptState.PUBLISHED.value
        chosen = select(func.max(slices.c.aim)).join(attempts, attempts.c.fence == slices.c.fence)
        with self._reading() as connection:
            return connection.execute(chosen.where(*of_slice, published)).scalar_one_or_none()

    @retrying_outages
    def why_published(self, task: str, label: str, generation: int) -> tuple[str, ...]:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.aim == generation)
        published = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.why.is_not(None))
        chosen = select(attempts.c.why).join(slices, slices.c.fence == attempts.c.fence).where(*of_slice, *published)
        with self._reading() as connection:
            return tuple(connection.execute(chosen.order_by(attempts.c.fence.desc())).scalars())

    @retrying_outages
    def last_version(self, task: str) -> int | None:
        with self._reading() as connection:
            return connection.execute(_LAST_VERSION, {OF_TASK.key: self._own.key(task)}).scalar_one_or_none()

    @retrying_outages
    def publishers(self, task: str) -> dict[str, int]:
        with self._reading() as connection:
            return {row.label: row.fence for row in connection.execute(_PUBLISHERS, {OF_TASK.key: self._own.key(task)})}

    @retrying_outages
    def publishes(self, task: str) -> tuple[PublishRecord, ...]:
        with self._reading() as connection:
            return tuple(map(_publish_record, connection.execute(_PUBLISHES, {OF_TASK.key: self._own.key(task)})))

    @retrying_outages
    def displaced(self, task: str) -> frozenset[str]:
        with self._reading() as connection:
            found = connection.execute(_WITHOUT_INPUTS, {OF_TASK.key: self._own.key(task)}).all()
        return frozenset(
            row.label for row in found if row.changes is None or Changes(**json.loads(row.changes)).elsewhere
        )

    @retrying_outages
    def published_versions(self, task: str, labels: Sequence[str]) -> KnownVersions:
        with self._reading() as connection:
            return read_versions(connection, self._own, task, labels)
