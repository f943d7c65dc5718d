"""Leases: who may work on a slice now. They only save work; correctness never rests on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import Connection, Insert, bindparam, delete, insert, select, update
from sqlalchemy.sql.dml import ReturningInsert

from twice.core.ledger.record import AttemptState, Busy, Claim, ClaimRequest
from twice.core.ledger.record_owner import name_of
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OF_FENCE, OF_TASK
from twice.ledgers.database.schema import attempts, insert_in, leases, runs, slices
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs.history import fence_of


class SqlClaims(Records):
    """See `core.ports.Claims`."""

    @retrying_outages
    def now(self) -> datetime:
        with self._reading() as connection:
            return self._time(connection)

    @retrying_outages
    def claim(self, request: ClaimRequest, lease: timedelta) -> Claim | Busy:
        task = request.task
        by_key = replace(request, task=self._own.key(task), labels=tuple(request.labels))
        found: Claim | Busy | None = None
        while found is None:
            with self._writing() as connection:
                # With the lock in hand: a claim that waited for it must not compare leases with an old time.
                self._own.register(connection, [task])
                now = self._time(connection)
                found = claim(connection, by_key, now, now + lease)
                if not isinstance(found, Claim):
                    connection.rollback()
        return replace(found, task=task) if isinstance(found, Claim) else found

    @retrying_outages
    def renew(self, claim: Claim, lease: timedelta) -> bool:
        with self._writing() as connection:
            held = renew(connection, claim, self._time(connection) + lease)
            if not held:
                connection.rollback()
            return held

    @retrying_outages
    def release(self, attempt: str) -> None:
        with self._writing() as connection:
            fence = fence_of(connection, self._own, attempt)
            if fence is not None:
                release(connection, fence)


_HOLD = update(leases).where(leases.c.task == OF_TASK, leases.c.fence.is_(None)).values(fence=OF_FENCE)
_RENEW = update(leases).where(leases.c.fence == OF_FENCE).values(until=bindparam("held_until"))
_RELEASE = delete(leases).where(leases.c.fence == OF_FENCE)
_IN_ORDER = select(leases.c.label).where(leases.c.fence == OF_FENCE).order_by(leases.c.label).with_for_update()
_ATTEMPT = select(attempts).where(attempts.c.id == bindparam("named"))
_LABELS = select(slices.c.label).where(slices.c.fence == OF_FENCE)
_ADD_ATTEMPT = insert(attempts).returning(attempts.c.fence)
_ADD_SLICES = insert(slices)


@cache
def _taking(dialect: str) -> ReturningInsert[str]:
    put = insert_in(dialect, leases)
    return put.on_conflict_do_update(
        index_elements=[leases.c.task, leases.c.label],
        set_={"fence": None, "until": put.excluded.until},
        where=leases.c.until <= bindparam("now"),
    ).returning(leases.c.label)


@cache
def _remembering(dialect: str) -> Insert:
    put = insert_in(dialect, runs)
    last = {"last_fence": put.excluded.last_fence}
    return put.on_conflict_do_update(index_elements=[runs.c.task, runs.c.label], set_=last)


def claim(connection: Connection, request: ClaimRequest, now: datetime, until: datetime) -> Claim | Busy | None:
    """Take every slice, or return who has one; None if that one released it meanwhile: ask again. Without a claim the
    caller rolls back. Dying before the commit takes nothing; after it the slices are held until the lease runs
    out, and the attempt is open for a later look to settle. A second claim by the
    same attempt (the first one's reply was lost) finds the first."""
    before = _claimed_before(connection, request)
    if before is not None and renew(connection, before, until):
        return before
    taken = _take(connection, request, now, until)
    for label in request.labels:
        if label not in taken:
            return _holder(connection, request.task, label)
    if before is not None:
        raise _claimed_twice(request)
    # Only now: whoever holds a slice's lock hands out fences in the order of its claims.
    fence = _insert_attempt(connection, request, now)
    connection.execute(_HOLD, {OF_TASK.key: request.task, OF_FENCE.key: fence})
    connection.execute(
        _ADD_SLICES, [{"fence": fence, "label": label, "task": request.task} for label in request.labels]
    )
    _remember_last(connection, request.task, request.labels, fence)
    return Claim(request.attempt, name_of(request.task), tuple(request.labels), fence)


def renew(connection: Connection, held: Claim, until: datetime) -> bool:
    """Hold every slice until then; False (and the caller rolls back) if one is gone. An expired lease that nobody
    took is renewed like any other. Dying here leaves the old deadline or the new one."""
    _lock(connection, held.fence)
    renewed = connection.execute(_RENEW, {OF_FENCE.key: held.fence, "held_until": until})
    return renewed.rowcount == len(held.labels)


def release(connection: Connection, fence: int) -> None:
    """Release whatever this attempt still holds. What another has taken over stays theirs."""
    _lock(connection, fence)
    connection.execute(_RELEASE, {OF_FENCE.key: fence})


def _lock(connection: Connection, fence: int) -> None:
    """In the order in which a claim takes them: PostgreSQL would lock them as they are on disk, and wait in a ring.
    SQLite has one lock for all, and leaves the clause out."""
    if connection.dialect.name != "sqlite":
        connection.execute(_IN_ORDER, {OF_FENCE.key: fence}).all()


def _take(connection: Connection, request: ClaimRequest, now: datetime, until: datetime) -> set[str]:
    """The labels that were free or expired, now ours. In sorted order, so that two claims never wait in a ring."""
    free = {"task": request.task, "until": until, "now": now}
    wanted = [free | {"label": label} for label in sorted(request.labels)]
    return set(connection.execute(_taking(connection.dialect.name), wanted).scalars())


def _holder(connection: Connection, task: str, label: str) -> Busy | None:
    row = connection.execute(
        select(attempts.c.id, attempts.c.holder, leases.c.until)
        .join(attempts, attempts.c.fence == leases.c.fence)
        .where(leases.c.task == task, leases.c.label == label)
    ).one_or_none()
    return None if row is None else Busy(label, row.id, row.holder, row.until)


def _claimed_before(connection: Connection, request: ClaimRequest) -> Claim | None:
    found = connection.execute(_ATTEMPT, {"named": request.attempt}).one_or_none()
    if found is None:
        return None
    labels = connection.execute(_LABELS, {OF_FENCE.key: found.fence}).scalars()
    asked = (request.task, request.kind, request.holder, AttemptState.CLAIMED.value, set(request.labels))
    if (found.task, found.kind, found.holder, found.state, set(labels)) != asked:
        raise _claimed_twice(request)
    return Claim(request.attempt, name_of(request.task), tuple(request.labels), found.fence)


def _claimed_twice(request: ClaimRequest) -> ValueError:
    return ValueError(f"attempt {request.attempt} has claimed before; each claim needs an id of its own")


def _insert_attempt(connection: Connection, request: ClaimRequest, now: datetime) -> int:
    values = {
        "id": request.attempt,
        "task": request.task,
        "kind": request.kind,
        "state": AttemptState.CLAIMED.value,
        "holder": request.holder,
        "started": now,
        "discarded": False,
    }
    return int(connection.execute(_ADD_ATTEMPT, values).scalar_one())


def _remember_last(connection: Connection, task: str, labels: Sequence[str], fence: int) -> None:
    connection.execute(
        _remembering(connection.dialect.name),
        [{"task": task, "label": label, "generation": 0, "last_fence": fence} for label in sorted(labels)],
    )
