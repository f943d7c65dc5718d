"""Runs: what is known to be published of each (task, slice). They move forward; a reset alone moves one back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, and_, case, func, null, or_, select, update

from twice.core.ledger.record import Adopted, AttemptState
from twice.ledgers.database.schema import attempts, insert_in, runs, slices

_OF_PUBLISH = ("attempt", "code_hash", "inputs_hash", "rows", "fingerprint", "version", "published")


def move_forward(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Runs at a higher generation take these values whole; at the same generation of the same attempt they only
    fill in what was unknown; at a lower one nothing changes. A second call changes nothing."""
    if not rows:
        return
    # Sorted, so that two publishes never wait for each other in a ring.
    in_order = sorted(rows, key=lambda row: str(row["label"]))
    connection.execute(_moving_forward(connection.dialect.name), in_order)


@cache
def _moving_forward(dialect: str) -> Insert:
    put = insert_in(dialect, runs)
    given = put.excluded
    higher = runs.c.generation < given.generation
    same = and_(
        runs.c.generation == given.generation,
        or_(runs.c.attempt.is_(None), given.attempt.is_(None), runs.c.attempt == given.attempt),
    )
    newest: dict[str, ColumnElement[Any]] = {
        name: case((higher, given[name]), else_=func.coalesce(runs.c[name], given[name])) for name in _OF_PUBLISH
    }
    return put.on_conflict_do_update(
        index_elements=[runs.c.task, runs.c.label],
        set_={
            "generation": given.generation,
            **newest,
            "quarantined": case((higher, null()), else_=runs.c.quarantined),
        },
        where=or_(higher, same),
    )


def adopt(connection: Connection, task: str, found: Sequence[Adopted]) -> None:
    """Runs as a target shows them. When they were published is not known, and stays empty."""
    rows = [
        {
            "task": task,
            "label": held.label,
            "generation": held.generation,
            "attempt": held.attempt,
            "code_hash": held.intention.code if held.intention else None,
            "inputs_hash": held.intention.inputs if held.intention else None,
            "rows": held.rows,
            "fingerprint": held.fingerprint,
            "version": held.version,
            "published": None,
        }
        for held in found
    ]
    move_forward(connection, rows)


def record_runs(connection: Connection, fences: Sequence[int]) -> None:
    """The runs of attempts that are on record as published, from what the attempts themselves remember."""
    published = (attempts.c.fence.in_(fences), attempts.c.state == AttemptState.PUBLISHED.value)
    for attempt in connection.execute(select(attempts).where(*published)).all():
        fixed = (slices.c.fence == attempt.fence, slices.c.expected.is_not(None))
        learnt = connection.execute(select(slices).where(*fixed)).all()
        aims = {row.label: row.expected + 1 if row.aim is None else row.aim for row in learnt}
        move_forward(connection, [run_of(attempt, row, aims[row.label], attempt.finished) for row in learnt])


def forget(connection: Connection, task: str, label: str) -> None:
    """The way back: nothing is known to be published. Who tried it last stays known."""
    connection.execute(
        update(runs)
        .where(runs.c.task == task, runs.c.label == label)
        .values({"generation": 0, **dict.fromkeys(_OF_PUBLISH)})
    )


def run_of(attempt: Any, learnt: Any, generation: int, now: datetime | None) -> dict[str, Any]:
    return {
        "task": attempt.task,
        "label": learnt.label,
        "generation": generation,
        "attempt": attempt.id,
        "code_hash": learnt.code_hash,
        "inputs_hash": learnt.inputs_hash,
        "rows": learnt.rows,
        "fingerprint": learnt.fingerprint,
        "version": attempt.version,
        "published": now,
        "last_fence": attempt.fence,
    }
