"""What is known of each (task, slice), read from the ledger; and what a table shows that the ledger has missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, or_, select

from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import AttemptState, Overview, RunRecord
from twice.core.table.token import Intention
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OF_TASK, OwnRows
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import IS_QUARANTINED, attempts, runs
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs import publishes

_STATES = {state.value: state for state in AttemptState}
_BAD = [state.value for state in AttemptState if state.bad]
_LAST = attempts.alias("last")
_RUNS = select(runs, _LAST.c.id, _LAST.c.state, _LAST.c.retry_at).select_from(
    runs.outerjoin(_LAST, _LAST.c.fence == runs.c.last_fence)
)
_IN_ORDER = _RUNS.order_by(runs.c.task, runs.c.label)
_ALL_OF_TASK = _IN_ORDER.where(runs.c.task == OF_TASK)
_OF_SLICE = _RUNS.where(runs.c.task == OF_TASK, runs.c.label == bindparam("of"))
_OF_SLICES = _RUNS.where(runs.c.task == OF_TASK, runs.c.label.in_(bindparam("of_any", expanding=True)))


class SqlRunRecords(Records):
    """See `core.ports.RunRecords`."""

    @retrying_outages
    def run(self, task: str, label: str) -> RunRecord | None:
        with self._reading() as connection:
            found = connection.execute(_OF_SLICE, {OF_TASK.key: self._own.key(task), "of": label}).one_or_none()
            return None if found is None else _run_record(self._own, found)

    @retrying_outages
    def runs_of(self, task: str, labels: Sequence[str]) -> dict[str, RunRecord]:
        with self._reading() as connection:
            return {run.label: run for run in read_runs_of(connection, self._own, task, labels)}

    @retrying_outages
    def runs(self, task: str | None = None) -> tuple[RunRecord, ...]:
        with self._reading() as connection:
            return read_runs(connection, self._own, task)

    @retrying_outages
    def overview(self, task: str | None, limit: int) -> Overview:
        """At a glance, also over 100,000 runs: they are counted by the database and only the last are read."""
        with self._reading() as connection:
            return read_overview(connection, self._own, task, limit)

    @retrying_outages
    def record_found(self, task: str, found: Sequence[FoundPublish]) -> None:
        with self._writing() as connection:
            self._own.register(connection, [task])
            publishes.record_found(connection, self._own.key(task), found)

    @retrying_outages
    def forget(self, task: str, label: str) -> None:
        with self._writing() as connection:
            publishes.forget(connection, self._own.key(task), label)


def read_runs(connection: Connection, own: OwnRows, task: str | None) -> tuple[RunRecord, ...]:
    """By task and label. One row per (task, slice) that was ever claimed, published or adopted."""
    if task is None:
        found = connection.execute(_IN_ORDER.where(own.among(runs.c.task, None)))
    else:
        found = connection.execute(_ALL_OF_TASK, {OF_TASK.key: own.key(task)})
    # In parts: 100,000 rows at once keep the garbage collector busier than the ledger.
    return tuple(_run_record(own, row) for part in found.partitions(1000) for row in part)


def read_runs_of(connection: Connection, own: OwnRows, task: str, labels: Sequence[str]) -> Iterator[RunRecord]:
    for some in in_parts(labels):
        chosen = {OF_TASK.key: own.key(task), "of_any": some}
        yield from (_run_record(own, row) for row in connection.execute(_OF_SLICES, chosen))


def read_overview(connection: Connection, own: OwnRows, task: str | None, limit: int) -> Overview:
    backwards = (runs.c.task.desc(), runs.c.label.desc())
    last = connection.execute(_runs(own, task).order_by(*backwards).limit(limit)).all()
    bad = _runs(own, task).where(or_(_LAST.c.state.in_(_BAD), IS_QUARANTINED))
    last_failed = connection.execute(bad.order_by(*backwards).limit(1)).first()
    counted = select(func.count()).select_from(runs).where(own.among(runs.c.task, task))
    total = connection.execute(counted).scalar_one()
    failed = connection.execute(select(func.count()).select_from(bad.subquery())).scalar_one()
    return Overview(
        tuple(_run_record(own, row) for row in reversed(last)),
        total,
        failed,
        None if last_failed is None else _run_record(own, last_failed),
    )


def _runs(own: OwnRows, task: str | None) -> Select[Any]:
    return _RUNS.where(own.among(runs.c.task, task))


def _run_record(own: OwnRows, row: Any) -> RunRecord:
    # Unpacked by position: a status over 100,000 runs spends its time here.
    (task, label, generation, attempt, code, inputs_, rows, fingerprint, version, published, *tried) = row
    _, quarantined, last, state, retry_at = tried
    return RunRecord(
        own.owner.task_of(task),
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
