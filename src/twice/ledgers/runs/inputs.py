"""What published slices were computed from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select

from twice.core.ledger.record import TABLE, AttemptState, InputRecord, Pinned
from twice.ledgers.database.outage import outliving
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.schema import attempts, inputs, runs, slices
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs.history import input_record


class SqlInputs(Records):
    """See `core.ports.Inputs`."""

    @outliving
    def inputs(self, task: str) -> Mapping[str, tuple[InputRecord, ...]]:
        with self._reading() as connection:
            return read_inputs(connection, self._own, task)

    @outliving
    def pins(self, task: str, table: str) -> Mapping[str, Pinned]:
        with self._reading() as connection:
            return read_pins(connection, self._own, task, table)


def read_inputs(connection: Connection, own: OwnRows, task: str) -> dict[str, tuple[InputRecord, ...]]:
    """What each published slice of a task was computed from, by label. Later attempts that found nothing to do bring
    their pinned tables up to date: up to those versions the slice is known to be right."""
    found: dict[str, dict[tuple[str, str, int], InputRecord]] = defaultdict(dict)
    for row in _input_rows(connection, own, task):
        position = -1 if row.kind == TABLE else row.position
        found[row.label][row.kind, row.name, position] = input_record(row)
    return {label: tuple(records.values()) for label, records in found.items()}


def read_pins(connection: Connection, own: OwnRows, task: str, table: str) -> dict[str, Pinned]:
    """Of the same, one table's."""
    pinned = (inputs.c.kind == TABLE, inputs.c.name == table, inputs.c.version.is_not(None))
    rows = _input_rows(connection, own, task, *pinned)
    return {row.label: Pinned(row.version, row.fence, row.identity) for row in rows}


def _input_rows(connection: Connection, own: OwnRows, task: str, *which: ColumnElement[bool]) -> Iterator[Any]:
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
    of_task = own.among(runs.c.task, task)
    yield from connection.execute(shown.where(of_task, *which))
    yield from connection.execute(confirmed.where(of_task, *unchanged, *which).order_by(inputs.c.fence))
