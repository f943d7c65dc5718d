"""Backfills in the ledger: frozen plans, and which worker has which batch of them. A ledger sees those of
which all tasks are its own.

Every method is one transaction. Claims only save work: two workers on one batch are kept apart by the leases of its
slices and, in the end, by the target.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import CTE, ColumnElement, Connection, ScalarSelect, Select, and_, exists, func, or_, select, update

from twice.core.backfill.plan import BackfillPlan, BackfillRequest, halves
from twice.core.backfill.result import (
    BackfillRecord,
    BackfillState,
    BatchClaim,
    BatchRecord,
    BatchState,
    Hold,
    SliceEnd,
)
from twice.core.ledger.record_owner import backfill_key
from twice.ledgers.backfills.plans import batches_of, insert_part, insert_plan, records_of, slices_of, write_ends
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.schema import attempts, backfills, batches, insert_or, needs
from twice.ledgers.database.transactions import Records

_OPEN = [state.value for state in BatchState if state.open]
_NEWEST_FENCE = func.coalesce(select(func.max(attempts.c.fence)).scalar_subquery(), 0)


class SqlBackfills(Records):
    """See `core.ports.BackfillStore`. `Ledger.backfills` gives it."""

    @retrying_outages
    def create(self, plan: BackfillPlan) -> bool:
        own, task = self._own, plan.request.task
        with self._writing() as connection:
            own.register(connection, {task, *(batch.task for batch in plan.batches)})
            own.lock(connection)
            if self._key(connection, plan.name) is not None:
                return False
            key = backfill_key(plan.name, own.key(task))
            put = insert_or(connection, backfills).values(
                name=key,
                task=own.key(task),
                state=BackfillState.RUNNING.value,
                created=self._time(connection),
                request=json.dumps(plan.request.to_data(), sort_keys=True),
                notes=json.dumps(list(plan.notes)),
            )
            stored = put.on_conflict_do_nothing().returning(backfills.c.name)
            if connection.execute(stored).one_or_none() is None:
                return False
            insert_plan(connection, own, key, plan)
            return True

    @retrying_outages
    def record(self, name: str) -> BackfillRecord | None:
        with self._reading() as connection:
            return next(iter(records_of(connection, self._mine(), self._key(connection, name) or "")), None)

    @retrying_outages
    def records(self, request: BackfillRequest | None = None) -> tuple[BackfillRecord, ...]:
        with self._reading() as connection:
            return records_of(connection, self._mine(), None, request)

    @retrying_outages
    def batches(self, name: str, state: BatchState | None = None) -> tuple[BatchRecord, ...]:
        with self._reading() as connection:
            return batches_of(connection, self._own, self._key(connection, name) or "", state)

    @retrying_outages
    def move(self, name: str, before: Sequence[BackfillState], after: BackfillState) -> bool:
        with self._writing() as connection:
            moved = update(backfills).where(
                backfills.c.name == self._key(connection, name),
                backfills.c.state.in_([state.value for state in before]),
            )
            return connection.execute(moved.values(state=after.value)).rowcount == 1

    @retrying_outages
    def finish(self, name: str) -> bool:
        with self._writing() as connection:
            return connection.execute(_finished(backfills.c.name == self._key(connection, name))).rowcount == 1

    @retrying_outages
    def finish_done(self) -> int:
        with self._writing() as connection:
            return connection.execute(_finished(self._own.of_any_table(backfills.c.task))).rowcount

    @retrying_outages
    def again(self, name: str) -> int:
        bad = [BatchState.FAILED.value, BatchState.SKIPPED.value]
        with self._writing() as connection:
            key = self._key(connection, name)
            count = connection.execute(
                update(batches)
                .where(batches.c.backfill == key, batches.c.state.in_(bad))
                .values(state=BatchState.PENDING.value, error=None)
            ).rowcount
            if count:
                connection.execute(
                    update(backfills)
                    .where(backfills.c.name == key, backfills.c.state == BackfillState.FINISHED.value)
                    .values(state=BackfillState.RUNNING.value)
                )
            return count

    @retrying_outages
    def claim(self, name: str, holder: str, lease: timedelta) -> BatchClaim | None:
        with self._writing() as connection:
            now = self._time(connection)
            key = self._key(connection, name)
            number = _first_free(connection, key, now) if key is not None else None
            if key is None or number is None:
                return None
            taken = connection.execute(
                update(batches)
                .where(batches.c.backfill == key, batches.c.number == number, _free(now))
                .values(state=BatchState.CLAIMED.value, holder=holder, until=now + lease, tries=batches.c.tries + 1)
                .values(after_fence=func.coalesce(batches.c.after_fence, _NEWEST_FENCE))
                .returning(batches.c.task, batches.c.kind, batches.c.tries, batches.c.after_fence)
            ).one_or_none()
            if taken is None:
                return None
            request = connection.execute(select(backfills.c.request).where(backfills.c.name == key)).scalar_one()
            silent = BackfillRequest.from_data(json.loads(request)).silent
            slices = slices_of(connection, key, number)
            task = self._own.owner.task_of(taken.task)
            return BatchClaim(name, number, taken.tries, task, slices, taken.kind, silent, taken.after_fence)

    @retrying_outages
    def renew(self, claim: BatchClaim, lease: timedelta) -> bool:
        with self._writing() as connection:
            until = self._time(connection) + lease
            return connection.execute(self._of(connection, claim).values(until=until)).rowcount == 1

    def release(self, claim: BatchClaim) -> bool:
        return self.free(claim.backfill, claim.number, claim.tries)

    @retrying_outages
    def held(self, name: str) -> tuple[Hold, ...]:
        with self._reading() as connection:
            chosen = select(batches.c.number, batches.c.tries, batches.c.holder).where(
                batches.c.backfill == self._key(connection, name), batches.c.state == BatchState.CLAIMED.value
            )
            return tuple(Hold(*row) for row in connection.execute(chosen.order_by(batches.c.number)))

    @retrying_outages
    def free(self, name: str, number: int, tries: int) -> bool:
        with self._writing() as connection:
            freed = _of_claim(self._key(connection, name), number, tries).values(
                state=BatchState.PENDING.value, holder=None, until=None
            )
            return connection.execute(freed).rowcount == 1

    @retrying_outages
    def done(self, claim: BatchClaim, ends: Sequence[SliceEnd], seconds: float) -> bool:
        with self._writing() as connection:
            values = {"state": BatchState.DONE.value, "holder": None, "until": None, "seconds": seconds, "error": None}
            if connection.execute(self._of(connection, claim).values(values)).rowcount != 1:
                return False
            write_ends(connection, self._key(connection, claim.backfill) or "", claim.number, ends)
            return True

    @retrying_outages
    def failed(self, claim: BatchClaim, error: Mapping[str, str], seconds: float) -> bool:
        with self._writing() as connection:
            values = {
                "state": BatchState.FAILED.value,
                "holder": None,
                "until": None,
                "seconds": seconds,
                "error": json.dumps(dict(error), sort_keys=True),
            }
            if connection.execute(self._of(connection, claim).values(values)).rowcount != 1:
                return False
            _skip_what_needs(connection, self._key(connection, claim.backfill) or "", claim.number, error)
            return True

    @retrying_outages
    def split(self, claim: BatchClaim) -> bool:
        _, second = halves(claim.slices)
        with self._writing() as connection:
            values = {"state": BatchState.PENDING.value, "holder": None, "until": None}
            moved = self._of(connection, claim).values(values).returning(batches.c.position)
            found = connection.execute(moved).scalar_one_or_none()
            if found is None:
                return False
            insert_part(connection, self._key(connection, claim.backfill) or "", claim.number, second, found)
            return True

    def _key(self, connection: Connection, name: str) -> str | None:
        """The backfill in the rows; None if there is none of that name here."""
        named = backfills.c.name.in_(self._own.backfills(name))
        oldest = select(backfills.c.name).where(named, self._mine()).order_by(backfills.c.created).limit(1)
        return connection.execute(oldest).scalar_one_or_none()

    def _mine(self) -> ColumnElement[bool]:
        """One with a single task of another environment would wait for ever for batches that no worker here may do."""
        each = _tasks_of_backfill()
        foreign = exists().select_from(each).where(each.c.task.is_not(None), ~self._own.of(each.c.task, None))
        return and_(self._own.of(backfills.c.task, None), ~foreign)

    def _of(self, connection: Connection, claim: BatchClaim) -> Any:
        return _of_claim(self._key(connection, claim.backfill), claim.number, claim.tries)


def _finished(which: ColumnElement[bool]) -> Any:
    still = exists().where(batches.c.backfill == backfills.c.name, batches.c.state.in_(_OPEN))
    over = update(backfills).where(which, backfills.c.state == BackfillState.RUNNING.value, ~still)
    return over.values(state=BackfillState.FINISHED.value)


def _of_claim(name: str | None, number: int, tries: int) -> Any:
    """The one guard of every transition: this batch, claimed, by this very try."""
    return update(batches).where(
        batches.c.backfill == name,
        batches.c.number == number,
        batches.c.tries == tries,
        batches.c.state == BatchState.CLAIMED.value,
    )


def _free(now: datetime) -> Any:
    expired = and_(batches.c.state == BatchState.CLAIMED.value, batches.c.until <= now)
    return or_(batches.c.state == BatchState.PENDING.value, expired)


def _tasks_of_backfill() -> CTE:
    """The tasks of a backfill's batches, each once, and then NULL: from one to the next by the index, since a plan may
    have a hundred thousand batches of one task."""
    first = select(func.min(batches.c.task).label("task")).where(batches.c.backfill == backfills.c.name)
    each = first.correlate(backfills).cte("each_task", recursive=True, nesting=True)
    beyond = select(func.min(batches.c.task)).where(
        batches.c.backfill == backfills.c.name, batches.c.task > each.c.task
    )
    following = beyond.correlate(backfills, each).scalar_subquery()
    return each.union_all(select(following).where(each.c.task.is_not(None)))


def _first_free(connection: Connection, name: str, now: datetime) -> int | None:
    """Asked for apart: each is the begin of an index, and the two together would be sorted for every claim."""
    expired = (batches.c.state == BatchState.CLAIMED.value, batches.c.until <= now)
    asked = ((batches.c.state == BatchState.PENDING.value,), expired)
    found = [connection.execute(_claimable(name, *free)).one_or_none() for free in asked]
    return min((tuple(row) for row in found if row is not None), default=(0, None))[1]


def _claimable(name: str, *free: ColumnElement[bool]) -> Select[int, int]:
    other = batches.alias("other")
    waits = (
        exists()
        .select_from(needs.join(other, and_(other.c.backfill == needs.c.backfill, other.c.number == needs.c.needed)))
        .where(
            needs.c.backfill == batches.c.backfill,
            needs.c.number == batches.c.number,
            other.c.state != BatchState.DONE.value,
        )
    )
    running: ScalarSelect[str] = select(backfills.c.state).where(backfills.c.name == name).scalar_subquery()
    return (
        select(batches.c.position, batches.c.number)
        .where(batches.c.backfill == name, *free, ~waits, running == BackfillState.RUNNING.value)
        .order_by(batches.c.position, batches.c.number)
        .limit(1)
        # SQLite has its one writer's lock since BEGIN IMMEDIATE, and leaves this out.
        .with_for_update(skip_locked=True, of=batches)
    )


def _skip_what_needs(connection: Connection, name: str, number: int, error: Mapping[str, str]) -> None:
    """What needs a failed batch, and what needs that in turn: its input would be wrong."""
    reason = json.dumps({"code": "skipped", "what": f"it needs {error.get('where') or 'a slice that failed'}"})
    reached, waiting = {number}, [number]
    while waiting:
        found = select(needs.c.number).where(needs.c.backfill == name, needs.c.needed == waiting.pop())
        fresh = set(connection.execute(found).scalars()) - reached
        reached |= fresh
        waiting += sorted(fresh)
    pending = (batches.c.backfill == name, batches.c.state == BatchState.PENDING.value)
    for one in sorted(reached - {number}):
        connection.execute(
            update(batches)
            .where(*pending, batches.c.number == one)
            .values(state=BatchState.SKIPPED.value, error=reason)
        )
