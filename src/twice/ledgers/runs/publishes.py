"""Runs: what is known to be published of each (task, slice). They move forward; a reset alone moves one back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, and_, case, func, null, or_, select, update

from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import AttemptState, KnownVersions, aim_of
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.parts import in_parts
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


def record_found(connection: Connection, task: str, found: Sequence[FoundPublish]) -> None:
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


def read_versions(connection: Connection, own: OwnRows, task: str, labels: Sequence[str]) -> KnownVersions:
    """At which versions of its table slices were published, and from where on that is all there was: of every attempt
    that the ledger still has, and of publishes that it has adopted."""
    versions: set[int] = set()
    complete: list[int | None] = [0]
    landed = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.version.is_not(None))
    steps = select(slices.c.label, slices.c.expected, slices.c.aim, attempts.c.id, attempts.c.version)
    steps = steps.join(attempts, slices.c.fence == attempts.c.fence).where(own.of(slices.c.task, task), *landed)
    now = select(runs).where(own.of(runs.c.task, task), runs.c.generation > 0)
    for some in in_parts(labels):
        known: dict[str, list[Any]] = defaultdict(list)
        for row in connection.execute(steps.where(slices.c.label.in_(some)).order_by(slices.c.fence)):
            versions.add(row.version)
            if row.expected is not None:
                known[row.label].append(row)
        for run in connection.execute(now.where(runs.c.label.in_(some))):
            versions.update(() if run.version is None else (run.version,))
            complete.append(_complete_from(run, known[run.label]))
    unknown = any(version is None for version in complete)
    return KnownVersions(frozenset(versions), None if unknown else max(version or 0 for version in complete))


def _complete_from(run: Any, steps: Sequence[Any]) -> int | None:
    """Back from what is published now, publish by publish, to the first one that the ledger does not know; 0: there is
    none. None: it does not even know at which version the last one was."""
    made = {
        aim_of(step.expected, step.aim): step for step in steps
    }  # of two at one generation (an older copy was put back) the later
    step = next((s for s in steps if s.id == run.attempt and aim_of(s.expected, s.aim) == run.generation), None)
    first: int | None = run.version
    while step is not None:
        first = step.version
        if step.expected == 0:
            return 0
        del made[aim_of(step.expected, step.aim)]  # a mark that was set back may come to where it was
        step = made.get(step.expected)
    return first
