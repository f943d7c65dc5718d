"""Backfills in the ledger: frozen plans, and which worker has which batch of them.

Every method is one transaction. Claims only save work: two workers on one batch are kept apart by the leases of its
slices and, in the end, by the target.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, ScalarSelect, Select, and_, bindparam, exists, func, insert, or_, select, update

from twice.core.backfill import (
    OPEN,
    BackfillPlan,
    BackfillRecord,
    BackfillState,
    BatchClaim,
    BatchRecord,
    BatchState,
    Comparison,
    PlannedSlice,
    Request,
    SliceEnd,
    halves,
)
from twice.ledgers.outage import Outage, outliving
from twice.ledgers.schema import backfills, batches, insert_or, needs, planned

_OPEN = [state.value for state in OPEN]


class Backfills:
    """`Ledger.backfills` gives it; the ledger's transactions and clock are its own."""

    def __init__(
        self,
        outage: Outage,
        writing: Callable[[], AbstractContextManager[Connection]],
        reading: Callable[[], AbstractContextManager[Connection]],
        time: Callable[[Connection], datetime],
    ) -> None:
        self._outage = outage
        self._writing = writing
        self._reading = reading
        self._time = time

    @outliving
    def create(self, plan: BackfillPlan) -> bool:
        """Store a plan; False, and nothing written, if there is one of that name. Dying here stores all or nothing."""
        with self._writing() as connection:
            put = insert_or(connection, backfills).values(
                name=plan.name,
                state=BackfillState.RUNNING.value,
                created=self._time(connection),
                request=json.dumps(plan.request.to_data(), sort_keys=True),
                notes=json.dumps(list(plan.notes)),
            )
            stored = put.on_conflict_do_nothing().returning(backfills.c.name)
            if connection.execute(stored).one_or_none() is None:
                return False
            _insert_batches(connection, plan)
            return True

    @outliving
    def record(self, name: str) -> BackfillRecord | None:
        with self._reading() as connection:
            return next(iter(_records(connection, name)), None)

    @outliving
    def records(self) -> tuple[BackfillRecord, ...]:
        """Oldest first."""
        with self._reading() as connection:
            return _records(connection, None)

    @outliving
    def batches(self, name: str) -> tuple[BatchRecord, ...]:
        """In the order they are taken."""
        with self._reading() as connection:
            return _batch_records(connection, name)

    @outliving
    def move(self, name: str, before: Sequence[BackfillState], after: BackfillState) -> bool:
        """Pause, resume or cancel; False if it is in another state. A second call changes nothing."""
        with self._writing() as connection:
            moved = update(backfills).where(
                backfills.c.name == name, backfills.c.state.in_([state.value for state in before])
            )
            return connection.execute(moved.values(state=after.value)).rowcount == 1

    @outliving
    def finish(self, name: str) -> bool:
        """Running becomes finished once nothing is open; False otherwise."""
        with self._writing() as connection:
            still = exists().where(batches.c.backfill == name, batches.c.state.in_(_OPEN))
            over = update(backfills).where(
                backfills.c.name == name, backfills.c.state == BackfillState.RUNNING.value, ~still
            )
            return connection.execute(over.values(state=BackfillState.FINISHED.value)).rowcount == 1

    @outliving
    def again(self, name: str) -> int:
        """Everything that failed, or waited for it, becomes pending once more, and the backfill runs; how many
        batches. A second call finds none."""
        bad = [BatchState.FAILED.value, BatchState.SKIPPED.value]
        with self._writing() as connection:
            count = connection.execute(
                update(batches)
                .where(batches.c.backfill == name, batches.c.state.in_(bad))
                .values(state=BatchState.PENDING.value, error=None)
            ).rowcount
            if count:
                connection.execute(
                    update(backfills)
                    .where(backfills.c.name == name, backfills.c.state == BackfillState.FINISHED.value)
                    .values(state=BackfillState.RUNNING.value)
                )
            return count

    @outliving
    def claim(self, name: str, holder: str, lease: timedelta) -> BatchClaim | None:
        """The first batch that is free (or whose worker was silent for too long) and needs nothing more; None if there
        is none now. Dying after it leaves a claim that runs out by itself, and so does a reply that was lost."""
        with self._writing() as connection:
            now = self._time(connection)
            number = connection.execute(_claimable(name, now)).scalar_one_or_none()
            if number is None:
                return None
            taken = connection.execute(
                update(batches)
                .where(batches.c.backfill == name, batches.c.number == number, _free(now))
                .values(state=BatchState.CLAIMED.value, holder=holder, until=now + lease, tries=batches.c.tries + 1)
                .returning(batches.c.task, batches.c.kind, batches.c.tries)
            ).one_or_none()
            if taken is None:
                return None
            request = connection.execute(select(backfills.c.request).where(backfills.c.name == name)).scalar_one()
            silent = Request.from_data(json.loads(request)).silent
            slices = _slices_of(connection, name, number)
            return BatchClaim(name, number, taken.tries, taken.task, slices, taken.kind, silent)

    @outliving
    def renew(self, claim: BatchClaim, lease: timedelta) -> bool:
        """Hold on for another `lease`. False: another worker has the batch."""
        with self._writing() as connection:
            until = self._time(connection) + lease
            return connection.execute(_of(claim).values(until=until)).rowcount == 1

    def release(self, claim: BatchClaim) -> bool:
        """Put a batch back that was not done. False: another worker has it."""
        return self.free(claim.backfill, claim.number, claim.tries)

    def held(self, name: str) -> tuple[BatchRecord, ...]:
        """The batches that workers have now."""
        return tuple(batch for batch in self.batches(name) if batch.state is BatchState.CLAIMED)

    @outliving
    def free(self, name: str, number: int, tries: int) -> bool:
        """A worker is known to be gone: its batch is free again. False if it is not its any more."""
        with self._writing() as connection:
            freed = _of_claim(name, number, tries).values(state=BatchState.PENDING.value, holder=None, until=None)
            return connection.execute(freed).rowcount == 1

    @outliving
    def done(self, claim: BatchClaim, ends: Sequence[SliceEnd], seconds: float) -> bool:
        """Dying before it leaves the claim to run out; the next worker finds the slices published."""
        with self._writing() as connection:
            values = {"state": BatchState.DONE.value, "holder": None, "until": None, "seconds": seconds, "error": None}
            if connection.execute(_of(claim).values(values)).rowcount != 1:
                return False
            if ends:
                connection.execute(_ENDED, [_ended(claim, end) for end in ends])
            return True

    @outliving
    def failed(self, claim: BatchClaim, error: Mapping[str, str], seconds: float) -> bool:
        """The batch failed for good (until `again`), and what needs it is skipped."""
        with self._writing() as connection:
            values = {
                "state": BatchState.FAILED.value,
                "holder": None,
                "until": None,
                "seconds": seconds,
                "error": json.dumps(dict(error), sort_keys=True),
            }
            if connection.execute(_of(claim).values(values)).rowcount != 1:
                return False
            _skip_what_needs(connection, claim.backfill, claim.number, error)
            return True

    @outliving
    def split(self, claim: BatchClaim) -> bool:
        """A failed batch becomes two pending ones in its place. Dying here has split it or not."""
        _, second = halves(claim.slices)
        with self._writing() as connection:
            values = {"state": BatchState.PENDING.value, "holder": None, "until": None}
            found = connection.execute(_of(claim).values(values).returning(batches.c.position)).scalar_one_or_none()
            if found is None:
                return False
            _insert_part(connection, claim, second, found)
            return True


_ENDED = (
    update(planned)
    .where(
        planned.c.backfill == bindparam("of_backfill"),
        planned.c.task == bindparam("of_task"),
        planned.c.label == bindparam("of_label"),
    )
    .values({name: bindparam(f"new_{name}") for name in ("outcome", "rows", "fingerprint", "comparison")})
)


def _ended(claim: BatchClaim, end: SliceEnd) -> dict[str, Any]:
    return {
        "of_backfill": claim.backfill,
        "of_task": claim.task,
        "of_label": end.label,
        "new_outcome": end.outcome,
        "new_rows": end.rows,
        "new_fingerprint": end.fingerprint,
        "new_comparison": None if end.comparison is None else json.dumps(asdict(end.comparison), sort_keys=True),
    }


def _of(claim: BatchClaim) -> Any:
    return _of_claim(claim.backfill, claim.number, claim.tries)


def _of_claim(name: str, number: int, tries: int) -> Any:
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


def _claimable(name: str, now: datetime) -> Select[int]:
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
        select(batches.c.number)
        .where(batches.c.backfill == name, _free(now), ~waits, running == BackfillState.RUNNING.value)
        .order_by(batches.c.position, batches.c.number)
        .limit(1)
        # SQLite has its one writer's lock since BEGIN IMMEDIATE, and leaves this out.
        .with_for_update(skip_locked=True, of=batches)
    )


def _insert_batches(connection: Connection, plan: BackfillPlan) -> None:
    if not plan.batches:
        return
    connection.execute(
        insert(batches),
        [
            {
                "backfill": plan.name,
                "number": batch.number,
                "task": batch.task,
                "kind": batch.kind,
                "position": at,
                "state": BatchState.PENDING.value,
                "tries": 0,
            }
            for at, batch in enumerate(plan.batches)
        ],
    )
    connection.execute(
        insert(planned),
        [
            {**asdict(slice_), "backfill": plan.name, "task": batch.task, "number": batch.number}
            for batch in plan.batches
            for slice_ in batch.slices
        ],
    )
    wanted = [
        {"backfill": plan.name, "number": batch.number, "needed": needed}
        for batch in plan.batches
        for needed in batch.needs
    ]
    if wanted:
        connection.execute(insert(needs), wanted)


def _insert_part(connection: Connection, claim: BatchClaim, part: Sequence[PlannedSlice], position: int) -> None:
    of_backfill = batches.c.backfill == claim.backfill
    number = connection.execute(select(func.max(batches.c.number)).where(of_backfill)).scalar_one() + 1
    connection.execute(
        insert(batches).values(
            backfill=claim.backfill,
            number=number,
            task=claim.task,
            kind=claim.kind,
            position=position,
            state=BatchState.PENDING.value,
            tries=0,
        )
    )
    connection.execute(
        update(planned)
        .where(
            planned.c.backfill == claim.backfill,
            planned.c.task == claim.task,
            planned.c.label.in_([slice_.label for slice_ in part]),
        )
        .values(number=number)
    )
    known = connection.execute(select(needs).where(needs.c.backfill == claim.backfill)).all()
    rows = [
        {"backfill": claim.backfill, "number": number, "needed": n.needed} for n in known if n.number == claim.number
    ]
    rows += [
        {"backfill": claim.backfill, "number": n.number, "needed": number} for n in known if n.needed == claim.number
    ]
    if rows:
        connection.execute(insert(needs), rows)


def _skip_what_needs(connection: Connection, name: str, number: int, error: Mapping[str, str]) -> None:
    """What needs a failed batch, and what needs that in turn: its input would be wrong."""
    told = json.dumps({"code": "skipped", "what": f"it needs {error.get('where') or 'a slice that failed'}"})
    reached, waiting = {number}, [number]
    while waiting:
        found = select(needs.c.number).where(needs.c.backfill == name, needs.c.needed == waiting.pop())
        fresh = set(connection.execute(found).scalars()) - reached
        reached |= fresh
        waiting += sorted(fresh)
    pending = (batches.c.backfill == name, batches.c.state == BatchState.PENDING.value)
    for one in sorted(reached - {number}):
        connection.execute(
            update(batches).where(*pending, batches.c.number == one).values(state=BatchState.SKIPPED.value, error=told)
        )


def _slices_of(connection: Connection, name: str, number: int) -> tuple[PlannedSlice, ...]:
    chosen = select(planned).where(planned.c.backfill == name, planned.c.number == number).order_by(planned.c.label)
    return tuple(_planned(row) for row in connection.execute(chosen))


def _planned(row: Any) -> PlannedSlice:
    return PlannedSlice(row.label, row.standing, row.why, row.generation)


def _records(connection: Connection, name: str | None) -> tuple[BackfillRecord, ...]:
    chosen = select(backfills).order_by(backfills.c.created, backfills.c.name)
    counted = (
        select(
            batches.c.backfill, batches.c.state, func.count().label("slices"), func.sum(planned.c.rows).label("rows")
        )
        .join(planned, and_(planned.c.backfill == batches.c.backfill, planned.c.number == batches.c.number))
        .group_by(batches.c.backfill, batches.c.state)
    )
    if name is not None:
        chosen, counted = chosen.where(backfills.c.name == name), counted.where(batches.c.backfill == name)
    slices: dict[str, dict[BatchState, int]] = defaultdict(dict)
    rows: dict[str, int] = defaultdict(int)
    for row in connection.execute(counted):
        slices[row.backfill][BatchState(row.state)] = row.slices
        rows[row.backfill] += int(row.rows or 0)
    return tuple(
        BackfillRecord(
            row.name,
            Request.from_data(json.loads(row.request)),
            BackfillState(row.state),
            row.created,
            slices[row.name],
            rows[row.name],
            tuple(json.loads(row.notes)),
        )
        for row in connection.execute(chosen)
    )


def _batch_records(connection: Connection, name: str) -> tuple[BatchRecord, ...]:
    slices: dict[int, list[PlannedSlice]] = defaultdict(list)
    ends: dict[int, list[SliceEnd]] = defaultdict(list)
    for row in connection.execute(select(planned).where(planned.c.backfill == name).order_by(planned.c.label)):
        slices[row.number].append(_planned(row))
        if row.outcome is not None:
            ends[row.number].append(_end(row))
    needed: dict[int, list[int]] = defaultdict(list)
    for row in connection.execute(select(needs).where(needs.c.backfill == name).order_by(needs.c.needed)):
        needed[row.number].append(row.needed)
    chosen = select(batches).where(batches.c.backfill == name).order_by(batches.c.position, batches.c.number)
    return tuple(
        BatchRecord(
            row.number,
            row.task,
            BatchState(row.state),
            tuple(slices[row.number]),
            tuple(ends[row.number]),
            tuple(needed[row.number]),
            row.holder,
            row.until,
            row.tries,
            None if row.error is None else json.loads(row.error),
            row.seconds,
        )
        for row in connection.execute(chosen)
    )


def _end(row: Any) -> SliceEnd:
    comparison = None
    if row.comparison is not None:
        told = json.loads(row.comparison)
        sums = {name: (old, new) for name, (old, new) in told["sums"].items()}
        comparison = Comparison(told["identical"], told["rows_before"], told["rows"], sums)
    return SliceEnd(row.label, row.outcome, row.rows, row.fingerprint, comparison)
