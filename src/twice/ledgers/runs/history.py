"""Reading the ledger: rows become records, and keys of tasks their names."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from twice.core.audit import AuditResult
from twice.core.home import Place, name_of
from twice.core.record import TABLE, AttemptRecord, InputRecord, Overview, Pinned, RunRecord, SliceRecord
from twice.core.run import AttemptState
from twice.core.token import Intention
from twice.core.write import Changes
from twice.ledgers.database.owners import Owner, tasks
from twice.ledgers.database.schema import (
    HAS_LEFTOVERS,
    IS_OPEN,
    IS_QUARANTINED,
    attempts,
    audits,
    inputs,
    leases,
    runs,
    slices,
)

_STATES = {state.value: state for state in AttemptState}
_BAD = [state.value for state in AttemptState if state.bad]
_LAST = attempts.alias("last")
Chosen = Select[int]
_VALUES = 500


def named(owner: Owner, attempt: str, task: str | None = None) -> Chosen:
    mine = owner.of_any_table(attempts.c.task) if task is None else owner.of(attempts.c.task, task)
    return select(attempts.c.fence).where(attempts.c.id == attempt, mine)


def still_open(owner: Owner, task: str | None) -> Chosen:
    return select(attempts.c.fence).where(IS_OPEN, owner.of(attempts.c.task, task))


def with_leftovers(owner: Owner, task: str | None) -> Chosen:
    return select(attempts.c.fence).where(HAS_LEFTOVERS, owner.of(attempts.c.task, task))


def tables_left_open(connection: Connection, owner: Owner) -> tuple[tuple[str, Place], ...]:
    """Where declared tasks wrote before they were given another table, if an attempt there is still open."""
    left = (IS_OPEN, owner.of_any_table(attempts.c.task), ~owner.of(attempts.c.task, None))
    keys = connection.execute(select(attempts.c.task).where(*left).distinct()).scalars().all()
    found = connection.execute(select(tasks).where(tasks.c.key.in_(keys)).order_by(tasks.c.key))
    return tuple((row.name, Place(row.environment, row.target)) for row in found)


def newest(owner: Owner, task: str, label: str | None, limit: int) -> Chosen:
    if label is None:
        chosen = select(attempts.c.fence).where(owner.of(attempts.c.task, task)).order_by(attempts.c.fence.desc())
    else:
        of_slice = (owner.of(slices.c.task, task), slices.c.label == label)
        chosen = select(slices.c.fence).where(*of_slice).order_by(slices.c.fence.desc())
    return chosen.limit(limit)


def frozen_aim(connection: Connection, owner: Owner, task: str, label: str, expected: int) -> int | None:
    """What the first attempt that found this generation aimed at."""
    of_slice = (owner.of(slices.c.task, task), slices.c.label == label, slices.c.expected == expected)
    chosen = select(slices.c.aim).where(*of_slice, slices.c.aim > expected).order_by(slices.c.fence).limit(1)
    return connection.execute(chosen).scalar_one_or_none()


def furthest_aim(connection: Connection, owner: Owner, task: str, label: str, last: int) -> int | None:
    """The greatest generation, none beyond `last`, that an attempt at this slice has published."""
    of_slice = (owner.of(slices.c.task, task), slices.c.label == label, slices.c.aim <= last)
    published = attempts.c.state == AttemptState.PUBLISHED.value
    chosen = select(func.max(slices.c.aim)).join(attempts, attempts.c.fence == slices.c.fence)
    return connection.execute(chosen.where(*of_slice, published)).scalar_one_or_none()


def why_published(connection: Connection, owner: Owner, task: str, label: str, generation: int) -> tuple[str, ...]:
    """The reasons kept with the attempts that published this generation of a slice, newest first."""
    of_slice = (owner.of(slices.c.task, task), slices.c.label == label, slices.c.aim == generation)
    published = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.why.is_not(None))
    chosen = select(attempts.c.why).join(slices, slices.c.fence == attempts.c.fence).where(*of_slice, *published)
    return tuple(connection.execute(chosen.order_by(attempts.c.fence.desc())).scalars())


def last_version(connection: Connection, owner: Owner, task: str) -> int | None:
    """The newest version of its table that a task has published."""
    chosen = select(func.max(runs.c.version)).where(owner.of(runs.c.task, task))
    return connection.execute(chosen).scalar_one_or_none()


def read_attempts(connection: Connection, chosen: Chosen) -> tuple[AttemptRecord, ...]:
    """The chosen attempts with everything known of them, oldest first."""
    rows = connection.execute(select(attempts).where(attempts.c.fence.in_(chosen)).order_by(attempts.c.fence)).all()
    if not rows:
        return ()
    slices_of: dict[int, list[SliceRecord]] = defaultdict(list)
    for row in connection.execute(select(slices).where(slices.c.fence.in_(chosen)).order_by(slices.c.label)):
        slices_of[row.fence].append(_slice_record(row))
    inputs_of: dict[int, list[InputRecord]] = defaultdict(list)
    for row in connection.execute(select(inputs).where(inputs.c.fence.in_(chosen)).order_by(inputs.c.position)):
        inputs_of[row.fence].append(_input_record(row))
    audits_of: dict[int, list[AuditResult]] = defaultdict(list)
    for row in connection.execute(select(audits).where(audits.c.fence.in_(chosen)).order_by(audits.c.position)):
        audits_of[row.fence].append(AuditResult(row.name, row.severity, row.passed, row.message))
    leases_of = _leases_of(connection, chosen)
    records = []
    for row in rows:
        until, held = leases_of.get(row.fence, (None, 0))
        # With one slice taken over the lease is lost, even if others are still in its name.
        whole = until if held == len(slices_of[row.fence]) else None
        found = (tuple(slices_of[row.fence]), tuple(inputs_of[row.fence]), tuple(audits_of[row.fence]))
        records.append(_attempt_record(row, whole, *found))
    return tuple(records)


def read_runs(
    connection: Connection, owner: Owner, task: str | None, label: str | None = None
) -> tuple[RunRecord, ...]:
    """By task and label. One row per (task, slice) that was ever claimed, published or adopted."""
    chosen = _runs(owner, task)
    if label is not None:
        chosen = chosen.where(runs.c.label == label)
    found = connection.execute(chosen.order_by(runs.c.task, runs.c.label))
    # In parts: 100,000 rows at once keep the garbage collector busier than the ledger.
    return tuple(_run_record(row) for part in found.partitions(1000) for row in part)


def read_runs_of(connection: Connection, owner: Owner, task: str, labels: Sequence[str]) -> Iterator[RunRecord]:
    # In parts: a statement carries only so many values.
    for at in range(0, len(labels), _VALUES):
        chosen = _runs(owner, task).where(runs.c.label.in_(labels[at : at + _VALUES]))
        yield from (_run_record(row) for row in connection.execute(chosen))


def read_overview(connection: Connection, owner: Owner, task: str | None, limit: int) -> Overview:
    backwards = (runs.c.task.desc(), runs.c.label.desc())
    last = connection.execute(_runs(owner, task).order_by(*backwards).limit(limit)).all()
    bad = _runs(owner, task).where(or_(_LAST.c.state.in_(_BAD), IS_QUARANTINED))
    last_failed = connection.execute(bad.order_by(*backwards).limit(1)).first()
    counted = select(func.count()).select_from(runs).where(owner.among(runs.c.task, task))
    total = connection.execute(counted).scalar_one()
    failed = connection.execute(select(func.count()).select_from(bad.subquery())).scalar_one()
    return Overview(
        tuple(_run_record(row) for row in reversed(last)),
        total,
        failed,
        None if last_failed is None else _run_record(last_failed),
    )


def _runs(owner: Owner, task: str | None) -> Select[Any]:
    joined = runs.outerjoin(_LAST, _LAST.c.fence == runs.c.last_fence)
    chosen = select(runs, _LAST.c.id, _LAST.c.state, _LAST.c.retry_at).select_from(joined)
    return chosen.where(owner.among(runs.c.task, task))


def read_inputs(connection: Connection, owner: Owner, task: str) -> dict[str, tuple[InputRecord, ...]]:
    """What each published slice of a task was computed from, by label. Later attempts that found nothing to do bring
    their pinned tables up to date: up to those versions the slice is known to be right."""
    found: dict[str, dict[tuple[str, str, int], InputRecord]] = defaultdict(dict)
    for row in _input_rows(connection, owner, task):
        place = -1 if row.kind == TABLE else row.position
        found[row.label][row.kind, row.name, place] = _input_record(row)
    return {label: tuple(records.values()) for label, records in found.items()}


def read_pins(connection: Connection, owner: Owner, task: str, table: str) -> dict[str, Pinned]:
    """Of the same, one table's."""
    pinned = (inputs.c.kind == TABLE, inputs.c.name == table, inputs.c.version.is_not(None))
    rows = _input_rows(connection, owner, task, *pinned)
    return {row.label: Pinned(row.version, row.fence, row.identity) for row in rows}


def read_publishers(connection: Connection, owner: Owner, task: str) -> dict[str, int]:
    """By label: the fence of the attempt that published the slice, where the ledger has it."""
    joined = select(runs.c.label, attempts.c.fence).join(attempts, attempts.c.id == runs.c.attempt)
    return {row.label: row.fence for row in connection.execute(joined.where(owner.among(runs.c.task, task)))}


def read_published_versions(connection: Connection, owner: Owner, task: str, labels: Sequence[str]) -> Iterator[int]:
    """Of every attempt that the ledger still has, and of publishes that it only heard of."""
    landed = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.version.is_not(None))
    of_attempts = select(attempts.c.version).join(slices, slices.c.fence == attempts.c.fence).where(*landed)
    for at in range(0, len(labels), _VALUES):
        some = labels[at : at + _VALUES]
        yield from connection.execute(
            of_attempts.where(owner.of(slices.c.task, task), slices.c.label.in_(some)).distinct()
        ).scalars()
        heard = select(runs.c.version).where(owner.of(runs.c.task, task), runs.c.version.is_not(None))
        yield from connection.execute(heard.where(runs.c.label.in_(some))).scalars()


def _input_rows(connection: Connection, owner: Owner, task: str, *which: ColumnElement[bool]) -> Iterator[Any]:
    """Those of the publishing attempts; then, oldest first, the tables of later ones that found nothing to do."""
    shown = select(inputs).select_from(
        runs.join(attempts, attempts.c.id == runs.c.attempt).join(
            inputs, and_(inputs.c.fence == attempts.c.fence, inputs.c.label == runs.c.label)
        )
    )
    later, publisher = attempts.alias("later"), attempts.alias("publisher")
    confirmed = select(inputs).select_from(
        runs.join(publisher, publisher.c.id == runs.c.attempt)
        .join(slices, and_(slices.c.task == runs.c.task, slices.c.label == runs.c.label))
        .join(later, and_(later.c.fence == slices.c.fence, later.c.fence > publisher.c.fence))
        .join(inputs, and_(inputs.c.fence == later.c.fence, inputs.c.label == runs.c.label))
    )
    unchanged = (later.c.state == AttemptState.UNCHANGED.value, inputs.c.kind == TABLE)
    of_task = owner.among(runs.c.task, task)
    yield from connection.execute(shown.where(of_task, *which))
    yield from connection.execute(confirmed.where(of_task, *unchanged, *which).order_by(inputs.c.fence))


def _input_record(row: Any) -> InputRecord:
    return InputRecord(row.label, row.kind, row.name, row.identity, row.version)


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


def _attempt_record(
    row: Any,
    lease_until: datetime | None,
    slices_: tuple[SliceRecord, ...],
    inputs_: tuple[InputRecord, ...],
    audits_: tuple[AuditResult, ...],
) -> AttemptRecord:
    return AttemptRecord(
        id=row.id,
        task=name_of(row.task),
        kind=row.kind,
        state=_STATES[row.state],
        fence=row.fence,
        holder=row.holder,
        started=row.started,
        finished=row.finished,
        lease_until=lease_until,
        slices=slices_,
        inputs=inputs_,
        audits=audits_,
        why=row.why,
        version=row.version,
        notes=tuple(json.loads(row.notes or "[]")),
        seconds=json.loads(row.seconds or "{}"),
        error=None if row.error is None else json.loads(row.error),
        discarded=row.discarded,
        changes=None if row.changes is None else Changes(**json.loads(row.changes)),
        retry_at=row.retry_at,
    )


def _run_record(row: Any) -> RunRecord:
    # Unpacked by place: a status over 100,000 runs spends its time here.
    (task, label, generation, attempt, code, inputs_, rows, fingerprint, version, published, *tried) = row
    _, quarantined, last, state, retry_at = tried
    return RunRecord(
        name_of(task),
        label,
        generation,
        attempt,
        None if code is None else Intention(code, inputs_),
        rows,
        fingerprint,
        version,
        published,
        last,
        None if state is None else _STATES[state],
        quarantined,
        retry_at,
    )
