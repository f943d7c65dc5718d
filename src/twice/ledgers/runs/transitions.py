"""How attempts move on and runs move forward. Every transition is guarded by the state it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    update,
)

from twice.core.record import Adopted, Claim, Facts, SliceRecord
from twice.core.run import AttemptState
from twice.errors import LeaseLost, RunError
from twice.ledgers.database.schema import OPEN_STATES, attempts, audits, inputs, insert_or, runs, slices
from twice.ledgers.effects import transitions as effects
from twice.ledgers.runs.claims import release

_OF_PUBLISH = ("attempt", "code_hash", "inputs_hash", "rows", "fingerprint", "version", "published")
_ORDER = {AttemptState(state): place for place, state in enumerate(OPEN_STATES)}


def fix(connection: Connection, held: Claim, expected: Mapping[str, int], aims: Mapping[str, int]) -> None:
    """Write the generations found at look and those aimed at, once. The same ones again change nothing; others are
    refused, since a generation that follows the table is no compare-and-swap.
    Dying here leaves all of them written or none."""
    state = connection.execute(
        select(attempts.c.state).where(attempts.c.fence == held.fence, attempts.c.id == held.attempt).with_for_update()
    ).scalar_one_or_none()
    if state not in OPEN_STATES:
        raise _lost(held, state)
    found: dict[str, int | None] = _expected(connection, held.fence)
    _refuse_unknown(held.attempt, set(expected) - set(found))
    for label, generation in expected.items():
        fixed = found[label]
        if fixed is not None and fixed != generation:
            raise RunError(
                f"attempt {held.attempt} has fixed generation {fixed} at look and may not change it to {generation}",
                where=f"{held.task}[{label}]",
                fix="Run again: a new attempt looks at the table as it is now.",
            )
    missing = [
        {"of": label, "found": generation, "aimed": aims[label]}
        for label, generation in expected.items()
        if found[label] is None
    ]
    if missing:
        of_slice = and_(slices.c.fence == held.fence, slices.c.label == bindparam("of"), slices.c.expected.is_(None))
        connection.execute(
            update(slices).where(of_slice).values(expected=bindparam("found"), aim=bindparam("aimed")), missing
        )


def advance(
    connection: Connection,
    held: Claim,
    before: AttemptState,
    after: AttemptState,
    facts: Facts,
    now: datetime,
    again: bool = False,
) -> None:
    """From one open state to the same or a later one. Dying here leaves the attempt open, in either state.
    `again`: the reply to an earlier call was lost, so it may have happened already."""
    if before not in _ORDER or after not in _ORDER or _ORDER[after] < _ORDER[before]:
        raise ValueError(f"an attempt does not advance from {before.value} to {after.value}")
    moved = connection.execute(
        update(attempts)
        .where(attempts.c.fence == held.fence, attempts.c.id == held.attempt, attempts.c.state == before.value)
        .values(state=after.value)
    )
    if moved.rowcount != 1:
        found = connection.execute(select(attempts.c.state).where(attempts.c.id == held.attempt)).scalar_one_or_none()
        # Nobody but the attempt itself moves it on; others only close it.
        if not (again and found == after.value):
            raise _lost(held, found)
    learn(connection, held.fence, facts)
    if facts.effects:
        task = connection.execute(select(attempts.c.task).where(attempts.c.fence == held.fence)).scalar_one()
        effects.prepare(connection, held.attempt, task, facts.effects, now)


def close(connection: Connection, fence: int, state: AttemptState, facts: Facts, now: datetime) -> bool:
    """End an attempt that published nothing; False if it has ended before. Dying here leaves it open and its
    lease running: the next look at the slice settles it."""
    if state.open or state is AttemptState.PUBLISHED:
        raise ValueError(f"an attempt is not closed as {state.value}")
    closed = connection.execute(
        update(attempts)
        .where(attempts.c.fence == fence, attempts.c.state.in_(OPEN_STATES))
        .values(state=state.value, finished=now)
    )
    if closed.rowcount != 1:
        return False
    learn(connection, fence, facts)
    release(connection, fence)
    attempt = connection.execute(select(attempts.c.id).where(attempts.c.fence == fence)).scalar_one()
    effects.cancel(connection, attempt, f"the attempt ended as {state.value}", now)
    return True


def abandon_unlooked(connection: Connection, fence: int, now: datetime) -> bool:
    """Guarded like `fix`, by the same lock: of the two, one comes first and the other sees it. Dying here leaves the
    attempt open."""
    state = connection.execute(
        select(attempts.c.state).where(attempts.c.fence == fence).with_for_update()
    ).scalar_one_or_none()
    # A statement of its own, after the lock: PostgreSQL would judge a condition inside the first by an older state.
    if state not in OPEN_STATES or any(found is not None for found in _expected(connection, fence).values()):
        return False
    closed = close(connection, fence, AttemptState.ABANDONED, Facts(), now)
    connection.execute(update(attempts).where(attempts.c.fence == fence).values(discarded=True))
    return closed


def publish(connection: Connection, fence: int, facts: Facts, generations: Mapping[str, int], now: datetime) -> None:
    """Record what the target says has landed, whatever the ledger thought of the attempt before. A second call
    changes nothing. Dying here leaves the table published and the ledger behind: the next look settles it."""
    published = AttemptState.PUBLISHED.value
    moved = connection.execute(
        update(attempts)
        .where(attempts.c.fence == fence, attempts.c.state != published)
        .values(state=published, finished=now)
    )
    if moved.rowcount != 1:
        return
    learn(connection, fence, facts)
    # Before the runs, as a claim takes them: two transactions that lock in one order never wait in a ring.
    release(connection, fence)
    attempt = connection.execute(select(attempts).where(attempts.c.fence == fence)).one()
    learnt = connection.execute(select(slices).where(slices.c.fence == fence)).all()
    _refuse_unknown(attempt.id, set(generations) - {row.label for row in learnt})
    if attempt.kind == "reset":  # the one publish that may go back
        for label in sorted(generations):
            forget(connection, attempt.task, label)
    move_forward(
        connection,
        [_run_of(attempt, row, generations[row.label], now) for row in learnt if row.label in generations],
    )
    # With the runs locked: of two attempts that landed on one slice, one speaks of an occasion.
    effects.release(connection, attempt.id, now)


def record_takeover(connection: Connection, task: str, attempt: str, holder: str, why: str, now: datetime) -> None:
    """Once. Dying here leaves it in the table alone, whose commit says the same."""
    act = {
        "id": attempt,
        "task": task,
        "kind": "takeover",
        "state": AttemptState.PUBLISHED.value,
        "holder": holder,
        "started": now,
        "finished": now,
        "discarded": True,
        "why": why,
    }
    connection.execute(insert_or(connection, attempts).on_conflict_do_nothing(index_elements=[attempts.c.id]), act)


def move_forward(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Runs at a higher generation take these values whole; at the same generation of the same attempt they only
    fill in what was unknown; at a lower one nothing changes. A second call changes nothing."""
    if not rows:
        return
    put = insert_or(connection, runs)
    given = put.excluded
    higher = runs.c.generation < given.generation
    same = and_(
        runs.c.generation == given.generation,
        or_(runs.c.attempt.is_(None), given.attempt.is_(None), runs.c.attempt == given.attempt),
    )
    newest: dict[str, ColumnElement[Any]] = {
        name: case((higher, given[name]), else_=func.coalesce(runs.c[name], given[name])) for name in _OF_PUBLISH
    }
    connection.execute(
        put.on_conflict_do_update(
            index_elements=[runs.c.task, runs.c.label],
            set_={
                "generation": given.generation,
                **newest,
                "quarantined": case((higher, null()), else_=runs.c.quarantined),
            },
            where=or_(higher, same),
        ),
        # Sorted, so that two publishes never wait for each other in a ring.
        sorted(rows, key=lambda row: str(row["label"])),
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
        move_forward(connection, [_run_of(attempt, row, aims[row.label], attempt.finished) for row in learnt])


def forget(connection: Connection, task: str, label: str) -> None:
    """The way back: nothing is known to be published. Who tried it last stays known."""
    connection.execute(
        update(runs)
        .where(runs.c.task == task, runs.c.label == label)
        .values({"generation": 0, **dict.fromkeys(_OF_PUBLISH)})
    )


def learn(connection: Connection, fence: int, facts: Facts) -> None:
    """Merge what an attempt has learnt into what is known of it. Nothing known is forgotten."""
    _learn_of_attempt(connection, fence, facts)
    _learn_of_slices(connection, fence, facts.slices)
    if facts.inputs:
        rows = [vars(record) | {"fence": fence, "position": place} for place, record in enumerate(facts.inputs)]
        connection.execute(delete(inputs).where(inputs.c.fence == fence))
        connection.execute(insert(inputs), rows)
    if facts.audits:
        rows = [vars(result) | {"fence": fence, "position": place} for place, result in enumerate(facts.audits)]
        connection.execute(delete(audits).where(audits.c.fence == fence))
        connection.execute(insert(audits), rows)


def _learn_of_attempt(connection: Connection, fence: int, facts: Facts) -> None:
    values: dict[str, Any] = {}
    if facts.why is not None:
        values["why"] = facts.why
    if facts.version is not None:
        values["version"] = facts.version
    if facts.changes is not None:
        values["changes"] = json.dumps(asdict(facts.changes))
    if facts.error is not None:
        values["error"] = json.dumps(dict(facts.error), sort_keys=True)
    if facts.notes or facts.seconds:
        known = connection.execute(select(attempts.c.notes, attempts.c.seconds).where(attempts.c.fence == fence)).one()
        # A note that was told stays told; telling it again does not double it.
        notes = dict.fromkeys([*json.loads(known.notes or "[]"), *facts.notes])
        values["notes"] = json.dumps(list(notes))
        values["seconds"] = json.dumps({**json.loads(known.seconds or "{}"), **facts.seconds})
    if values:
        connection.execute(update(attempts).where(attempts.c.fence == fence).values(values))


def _learn_of_slices(connection: Connection, fence: int, records: Sequence[SliceRecord]) -> None:
    if not records:
        return
    _refuse_unknown(f"with fence {fence}", {record.label for record in records} - set(_expected(connection, fence)))
    code = bindparam("code", type_=Text)
    news = {
        "rows": func.coalesce(bindparam("counted", type_=BigInteger), slices.c.rows),
        "fingerprint": func.coalesce(bindparam("hashed", type_=Text), slices.c.fingerprint),
        "code_hash": func.coalesce(code, slices.c.code_hash),
        # Code and inputs are one intention: they change together, also to inputs that cannot be versioned.
        "inputs_hash": case((code.is_(None), slices.c.inputs_hash), else_=bindparam("inputs", type_=Text)),
    }
    connection.execute(
        update(slices).where(slices.c.fence == fence, slices.c.label == bindparam("of")).values(news),
        [
            {
                "of": record.label,
                "counted": record.rows,
                "hashed": record.fingerprint,
                "code": record.intention.code if record.intention else None,
                "inputs": record.intention.inputs if record.intention else None,
            }
            for record in records
        ],
    )


def _expected(connection: Connection, fence: int) -> dict[str, int | None]:
    rows = connection.execute(select(slices.c.label, slices.c.expected).where(slices.c.fence == fence))
    return {row.label: row.expected for row in rows}


def _refuse_unknown(attempt: str, labels: set[str]) -> None:
    if labels:
        raise ValueError(f"attempt {attempt} has no slice {', '.join(sorted(labels))}")


def _run_of(attempt: Any, learnt: Any, generation: int, now: datetime | None) -> dict[str, Any]:
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


def _lost(held: Claim, found: str | None) -> LeaseLost:
    told = f"is recorded as {found}" if found else "is not in the ledger any more"
    labels = held.labels[0] if len(held.labels) == 1 else f"{held.labels[0]} … {held.labels[-1]}"
    return LeaseLost(
        f"attempt {held.attempt} {told}: it was silent for too long and another process settled it",
        where=f"{held.task}[{labels}]",
        now="This attempt has published nothing.",
        fix="Run again: it will look first.",
    )
