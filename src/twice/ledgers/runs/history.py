"""Reading attempts: rows become records, and keys of tasks their names; which generations of a slice attempts aimed at,
and at which versions of the table they published.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select, union

from twice.core.audit import AuditResult
from twice.core.ledger.record import AttemptRecord, AttemptState, InputRecord, Publishes, SliceRecord
from twice.core.ledger.record_owner import TaskTable
from twice.core.table.token import Intention
from twice.core.write import Changes
from twice.ledgers.database.outage import outliving
from twice.ledgers.database.own_rows import OwnRows, tasks
from twice.ledgers.database.schema import HAS_LEFTOVERS, IS_OPEN, attempts, audits, inputs, leases, runs, slices
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs.versions import read_publishes

_STATES = {state.value: state for state in AttemptState}
Chosen = Select[int]


class SqlAttemptHistory(Records):
    """See `core.ports.AttemptHistory`."""

    @outliving
    def attempt(self, attempt: str, task: str | None = None) -> AttemptRecord | None:
        with self._reading() as connection:
            return next(iter(read_attempts(connection, self._own, named(self._own, attempt, task))), None)

    @outliving
    def attempts(self, task: str, label: str | None = None, limit: int = 50) -> tuple[AttemptRecord, ...]:
        """Newest first."""
        with self._reading() as connection:
            return read_attempts(connection, self._own, newest(self._own, task, label, limit))[::-1]

    @outliving
    def open_attempts(self, task: str | None = None, labels: Sequence[str] | None = None) -> tuple[AttemptRecord, ...]:
        with self._reading() as connection:
            found = read_attempts(connection, self._own, still_open(self._own, task))
        # Filtered here: few attempts are open, but a backfill may ask for more labels than a statement can carry.
        wanted = None if labels is None else set(labels)
        return tuple(a for a in found if wanted is None or any(s.label in wanted for s in a.slices))

    @outliving
    def undiscarded(self, task: str | None = None) -> tuple[AttemptRecord, ...]:
        with self._reading() as connection:
            return read_attempts(connection, self._own, with_leftovers(self._own, task))


def named(own: OwnRows, attempt: str, task: str | None = None) -> Chosen:
    mine = own.of_any_table(attempts.c.task) if task is None else own.of(attempts.c.task, task)
    return select(attempts.c.fence).where(attempts.c.id == attempt, mine)


def still_open(own: OwnRows, task: str | None) -> Chosen:
    return select(attempts.c.fence).where(IS_OPEN, own.of(attempts.c.task, task))


def with_leftovers(own: OwnRows, task: str | None) -> Chosen:
    return select(attempts.c.fence).where(HAS_LEFTOVERS, own.of(attempts.c.task, task))


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


def newest(own: OwnRows, task: str, label: str | None, limit: int) -> Chosen:
    if label is None:
        chosen = select(attempts.c.fence).where(own.of(attempts.c.task, task)).order_by(attempts.c.fence.desc())
    else:
        of_slice = (own.of(slices.c.task, task), slices.c.label == label)
        chosen = select(slices.c.fence).where(*of_slice).order_by(slices.c.fence.desc())
    return chosen.limit(limit)


def read_attempts(connection: Connection, own: OwnRows, chosen: Chosen) -> tuple[AttemptRecord, ...]:
    """The chosen attempts with everything known of them, oldest first."""
    rows = connection.execute(select(attempts).where(attempts.c.fence.in_(chosen)).order_by(attempts.c.fence)).all()
    if not rows:
        return ()
    slices_of: dict[int, list[SliceRecord]] = defaultdict(list)
    for row in connection.execute(select(slices).where(slices.c.fence.in_(chosen)).order_by(slices.c.label)):
        slices_of[row.fence].append(_slice_record(row))
    inputs_of: dict[int, list[InputRecord]] = defaultdict(list)
    for row in connection.execute(select(inputs).where(inputs.c.fence.in_(chosen)).order_by(inputs.c.position)):
        inputs_of[row.fence].append(input_record(row))
    audits_of: dict[int, list[AuditResult]] = defaultdict(list)
    for row in connection.execute(select(audits).where(audits.c.fence.in_(chosen)).order_by(audits.c.position)):
        audits_of[row.fence].append(AuditResult(row.name, row.severity, row.passed, row.message))
    leases_of = _leases_of(connection, chosen)
    records = []
    for row in rows:
        until, held = leases_of.get(row.fence, (None, 0))
        # With one slice taken over the lease is lost, even if others are still in its name.
        whole = until if held == len(slices_of[row.fence]) else None
        found = _Parts(tuple(slices_of[row.fence]), tuple(inputs_of[row.fence]), tuple(audits_of[row.fence]))
        records.append(_attempt_record(row, own.owner.task_of(row.task), whole, found))
    return tuple(records)


def _leases_of(connection: Connection, chosen: Chosen) -> dict[int, tuple[datetime, int]]:
    """By attempt: when its first lease runs out, and how many slices it holds."""
    rows = connection.execute(
        select(leases.c.fence, func.min(leases.c.until), func.count())
        .where(leases.c.fence.in_(chosen))
        .group_by(leases.c.fence)
    )
    return {fence: (until, held) for fence, until, held in rows}


def _slice_record(row: Any) -> SliceRecord:
    intention = None if row.code_hash is None else Intention(row.code_hash, row.inputs_hash)
    return SliceRecord(row.label, row.expected, intention, row.rows, row.fingerprint, row.aim)


class _Parts(NamedTuple):
    """What other tables hold of one attempt."""

    slices: tuple[SliceRecord, ...]
    inputs: tuple[InputRecord, ...]
    audits: tuple[AuditResult, ...]


def _attempt_record(row: Any, task: str, lease_until: datetime | None, parts: _Parts) -> AttemptRecord:
    return AttemptRecord(
        id=row.id,
        task=task,
        kind=row.kind,
        state=_STATES[row.state],
        fence=row.fence,
        holder=row.holder,
        started=row.started,
        finished=row.finished,
        lease_until=lease_until,
        slices=parts.slices,
        inputs=parts.inputs,
        audits=parts.audits,
        why=row.why,
        version=row.version,
        notes=tuple(json.loads(row.notes or "[]")),
        seconds=json.loads(row.seconds or "{}"),
        error=None if row.error is None else json.loads(row.error),
        discarded=row.discarded,
        changes=None if row.changes is None else Changes(**json.loads(row.changes)),
        retry_at=row.retry_at,
    )


def input_record(row: Any) -> InputRecord:
    return InputRecord(row.label, row.kind, row.name, row.identity, row.version)


class SqlGenerationHistory(Records):
    """See `core.ports.GenerationHistory`."""

    @outliving
    def frozen_aim(self, task: str, label: str, expected: int) -> int | None:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.expected == expected)
        chosen = select(slices.c.aim).where(*of_slice, slices.c.aim > expected).order_by(slices.c.fence).limit(1)
        with self._reading() as connection:
            return connection.execute(chosen).scalar_one_or_none()

    @outliving
    def furthest_aim(self, task: str, label: str, last: int) -> int | None:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.aim <= last)
        published = attempts.c.state == AttemptState.PUBLISHED.value
        chosen = select(func.max(slices.c.aim)).join(attempts, attempts.c.fence == slices.c.fence)
        with self._reading() as connection:
            return connection.execute(chosen.where(*of_slice, published)).scalar_one_or_none()

    @outliving
    def why_published(self, task: str, label: str, generation: int) -> tuple[str, ...]:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.aim == generation)
        published = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.why.is_not(None))
        chosen = select(attempts.c.why).join(slices, slices.c.fence == attempts.c.fence).where(*of_slice, *published)
        with self._reading() as connection:
            return tuple(connection.execute(chosen.order_by(attempts.c.fence.desc())).scalars())

    @outliving
    def last_version(self, task: str) -> int | None:
        chosen = select(func.max(runs.c.version)).where(self._own.of(runs.c.task, task))
        with self._reading() as connection:
            return connection.execute(chosen).scalar_one_or_none()

    @outliving
    def publishers(self, task: str) -> dict[str, int]:
        joined = select(runs.c.label, attempts.c.fence).join(attempts, attempts.c.id == runs.c.attempt)
        of_task = joined.where(self._own.among(runs.c.task, task))
        with self._reading() as connection:
            return {row.label: row.fence for row in connection.execute(of_task)}

    @outliving
    def published_versions(self, task: str, labels: Sequence[str]) -> Publishes:
        with self._reading() as connection:
            return read_publishes(connection, self._own, task, labels)
