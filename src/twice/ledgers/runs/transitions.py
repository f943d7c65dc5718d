"""How attempts move on. Every transition is guarded by the state it comes from.

The functions are parts of somebody's transaction: they have happened when that commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, update

from twice.core.ledger.record import AttemptState, Claim, Facts
from twice.core.table.mark import version_cell, version_text
from twice.errors import LeaseLost, RunError
from twice.ledgers.database.own_rows import OF_FENCE
from twice.ledgers.database.schema import OPEN_STATES, attempts, slices
from twice.ledgers.effects import transitions as effects
from twice.ledgers.runs.claims import release
from twice.ledgers.runs.facts import expected_of, learn, refuse_unknown
from twice.ledgers.runs.publishes import forget, move_forward, run_of

_ORDER = {AttemptState(state): position for position, state in enumerate(OPEN_STATES)}


_OF_ATTEMPT = attempts.c.fence == OF_FENCE
_NAMED_SO = attempts.c.id == bindparam("named")
_IN_STATE = attempts.c.state == bindparam("before")
_ATTEMPT = select(attempts).where(_OF_ATTEMPT)
_SLICES = select(slices).where(slices.c.fence == OF_FENCE)
_STATE_LOCKED = select(attempts.c.state).where(_OF_ATTEMPT).with_for_update()
_CLAIMED_STATE_LOCKED = _STATE_LOCKED.where(_NAMED_SO)
_STATE_OF = select(attempts.c.state).where(_NAMED_SO)
_FIX = (
    update(slices)
    .where(slices.c.fence == OF_FENCE, slices.c.label == bindparam("of"), slices.c.expected.is_(None))
    .values(expected=bindparam("found"), aim=bindparam("aimed"))
)
_ADVANCE = update(attempts).where(_OF_ATTEMPT, _NAMED_SO, _IN_STATE).values(state=bindparam("after"))
_END = update(attempts).where(_OF_ATTEMPT).values(state=bindparam("after"), finished=bindparam("now"))
_CLOSE = _END.where(attempts.c.state.in_(OPEN_STATES))
_PUBLISH = _END.where(attempts.c.state != AttemptState.PUBLISHED.value)


def fix(connection: Connection, held: Claim, expected: Mapping[str, int], aims: Mapping[str, int]) -> None:
    """Write the generations found at look and those aimed at, once. The same ones again change nothing; others are
    refused, since a generation that follows the table is no compare-and-swap.
    Dying here leaves all of them written or none."""
    claimed = {OF_FENCE.key: held.fence, "named": held.attempt}
    state = connection.execute(_CLAIMED_STATE_LOCKED, claimed).scalar_one_or_none()
    if state not in OPEN_STATES:
        raise _lost(held, state)
    found: dict[str, int | None] = expected_of(connection, held.fence)
    refuse_unknown(held.attempt, set(expected) - set(found))
    for label, generation in expected.items():
        fixed = found[label]
        if fixed is not None and fixed != generation:
            raise RunError(
                f"attempt {held.attempt} has fixed {version_text(fixed)} at look and may not change it to "
                f"{version_cell(generation)}",
                where=f"{held.task}[{label}]",
                fix="Run again: a new attempt looks at the table as it is now.",
            )
    missing = [
        {OF_FENCE.key: held.fence, "of": label, "found": generation, "aimed": aims[label]}
        for label, generation in expected.items()
        if found[label] is None
    ]
    if missing:
        connection.execute(_FIX, missing)


@dataclass(frozen=True)
class AttemptStep:
    """From one open state to the same or a later one, with what was learnt on the way."""

    before: AttemptState
    after: AttemptState
    facts: Facts

    def __post_init__(self) -> None:
        before, after = self.before, self.after
        if before not in _ORDER or after not in _ORDER or _ORDER[after] < _ORDER[before]:
            raise ValueError(f"an attempt does not advance from {before.value} to {after.value}")


def advance(connection: Connection, held: Claim, step: AttemptStep, now: datetime, again: bool) -> None:
    """Dying here leaves the attempt open, in either state. `again`: the reply to an earlier call was lost, so it may
    have happened already."""
    claimed = {OF_FENCE.key: held.fence, "named": held.attempt}
    moved = connection.execute(_ADVANCE, claimed | {"before": step.before.value, "after": step.after.value})
    if moved.rowcount != 1:
        found = connection.execute(_STATE_OF, {"named": held.attempt}).scalar_one_or_none()
        # Nobody but the attempt itself moves it on; others only close it.
        if not (again and found == step.after.value):
            raise _lost(held, found)
    learn(connection, held.fence, step.facts)
    if step.facts.effects:
        task = connection.execute(select(attempts.c.task).where(attempts.c.fence == held.fence)).scalar_one()
        effects.prepare(connection, held.attempt, task, step.facts.effects, now)


def close(connection: Connection, fence: int, state: AttemptState, facts: Facts, now: datetime) -> bool:
    """End an attempt that published nothing; False if it has ended before. Dying here leaves it open and its
    lease running: the next look at the slice settles it."""
    if state.open or state is AttemptState.PUBLISHED:
        raise ValueError(f"an attempt is not closed as {state.value}")
    closed = connection.execute(_CLOSE, {OF_FENCE.key: fence, "after": state.value, "now": now})
    if closed.rowcount != 1:
        return False
    learn(connection, fence, facts)
    release(connection, fence)
    attempt = connection.execute(_ATTEMPT, {OF_FENCE.key: fence}).one().id
    effects.cancel(connection, attempt, f"the attempt ended as {state.value}", now)
    return True


def abandon_unlooked(connection: Connection, fence: int, now: datetime) -> bool:
    """Guarded like `fix`, by the same lock: of the two, one comes first and the other sees it. Dying here leaves the
    attempt open."""
    state = connection.execute(_STATE_LOCKED, {OF_FENCE.key: fence}).scalar_one_or_none()
    # A statement of its own, after the lock: PostgreSQL would check a condition inside the first on an old state.
    if state not in OPEN_STATES or any(found is not None for found in expected_of(connection, fence).values()):
        return False
    closed = close(connection, fence, AttemptState.ABANDONED, Facts(), now)
    connection.execute(update(attempts).where(attempts.c.fence == fence).values(discarded=True))
    return closed


def publish(connection: Connection, fence: int, facts: Facts, generations: Mapping[str, int], now: datetime) -> None:
    """Record what the target shows to have landed, whatever was recorded of the attempt before. A second call
    changes nothing. Dying here leaves the table published and the ledger behind: the next look settles it."""
    moved = connection.execute(_PUBLISH, {OF_FENCE.key: fence, "after": AttemptState.PUBLISHED.value, "now": now})
    if moved.rowcount != 1:
        return
    learn(connection, fence, facts)
    # Before the runs, as a claim takes them: two transactions that lock in one order never wait in a ring.
    release(connection, fence)
    attempt = connection.execute(_ATTEMPT, {OF_FENCE.key: fence}).one()
    learnt = connection.execute(_SLICES, {OF_FENCE.key: fence}).all()
    refuse_unknown(attempt.id, set(generations) - {row.label for row in learnt})
    if attempt.kind == "reset":  # the one publish that may go back
        for label in sorted(generations):
            forget(connection, attempt.task, label)
    move_forward(
        connection,
        [run_of(attempt, row, generations[row.label], now) for row in learnt if row.label in generations],
    )
    # With the runs locked: of two attempts that landed on one slice, one sends the effect of an occasion.
    effects.release(connection, attempt.id, now)


def _lost(held: Claim, found: str | None) -> LeaseLost:
    state = f"is recorded as {found}" if found else "is not in the ledger any more"
    labels = held.labels[0] if len(held.labels) == 1 else f"{held.labels[0]} … {held.labels[-1]}"
    return LeaseLost(
        f"attempt {held.attempt} {state}: it stopped reporting and another process settled it",
        where=f"{held.task}[{labels}]",
        now="This attempt has published nothing.",
        fix="Run again: it will look first.",
    )
