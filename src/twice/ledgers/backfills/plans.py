"""Frozen plans as rows of the ledger: how one is written, and read again with what became of it. `key` is the
backfill in the rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, insert, or_, select, update

from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedSlice
from twice.core.backfill.result import BackfillRecord, BackfillState, BatchRecord, BatchState, Comparison, SliceEnd
from twice.core.ledger.record_owner import name_of
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.schema import backfills, batches, needs, planned


def insert_plan(connection: Connection, own: OwnRows, key: str, plan: BackfillPlan) -> None:
    if not plan.batches:
        return
    connection.execute(
        insert(batches),
        [
            {
                "backfill": key,
                "number": batch.number,
                "task": own.key(batch.task),
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
            {**_row(slice_), "backfill": key, "task": own.key(batch.task), "number": batch.number}
            for batch in plan.batches
            for slice_ in batch.slices
        ],
    )
    wanted = [
        {"backfill": key, "number": batch.number, "needed": needed} for batch in plan.batches for needed in batch.needs
    ]
    if wanted:
        connection.execute(insert(needs), wanted)


def insert_part(connection: Connection, key: str, whole: int, part: Sequence[PlannedSlice], position: int) -> None:
    """These slices of the batch `whole` become a batch of their own."""
    of_backfill = batches.c.backfill == key
    number = connection.execute(select(func.max(batches.c.number)).where(of_backfill)).scalar_one() + 1
    batch = connection.execute(select(batches).where(of_backfill, batches.c.number == whole)).one()
    connection.execute(
        insert(batches).values(
            backfill=key,
            number=number,
            task=batch.task,
            kind=batch.kind,
            position=position,
            state=BatchState.PENDING.value,
            tries=0,
            after_fence=batch.after_fence,
        )
    )
    connection.execute(
        update(planned)
        .where(
            planned.c.backfill == key,
            planned.c.number == whole,
            planned.c.label.in_([slice_.label for slice_ in part]),
        )
        .values(number=number)
    )
    of_whole = or_(needs.c.number == whole, needs.c.needed == whole)
    known = connection.execute(select(needs).where(needs.c.backfill == key, of_whole)).all()
    rows = [{"backfill": key, "number": number, "needed": n.needed} for n in known if n.number == whole]
    rows += [{"backfill": key, "number": n.number, "needed": number} for n in known if n.needed == whole]
    if rows:
        connection.execute(insert(needs), rows)


def write_ends(connection: Connection, key: str, number: int, ends: Sequence[SliceEnd]) -> None:
    if ends:
        connection.execute(_ENDED, [_ended(key, number, end) for end in ends])


_ENDED = (
    update(planned)
    .where(
        planned.c.backfill == bindparam("of_backfill"),
        planned.c.number == bindparam("of_number"),
        planned.c.label == bindparam("of_label"),
    )
    .values({name: bindparam(f"new_{name}") for name in ("outcome", "rows", "fingerprint", "comparison")})
)


def _ended(key: str, number: int, end: SliceEnd) -> dict[str, Any]:
    return {
        "of_backfill": key,
        "of_number": number,
        "of_label": end.label,
        "new_outcome": end.outcome,
        "new_rows": end.rows,
        "new_fingerprint": end.fingerprint,
        "new_comparison": None if end.comparison is None else json.dumps(asdict(end.comparison), sort_keys=True),
    }


def slices_of(connection: Connection, key: str, number: int) -> tuple[PlannedSlice, ...]:
    chosen = select(planned).where(planned.c.backfill == key, planned.c.number == number).order_by(planned.c.label)
    return tuple(_planned(row) for row in connection.execute(chosen))


def _row(slice_: PlannedSlice) -> dict[str, Any]:
    return {
        "label": slice_.label,
        "standing": slice_.status,
        "why": slice_.why,
        "generation": slice_.generation,
    }


def _planned(row: Any) -> PlannedSlice:
    return PlannedSlice(row.label, row.standing, row.why, row.generation)


def records_of(
    connection: Connection, mine: ColumnElement[bool], key: str | None, request: BackfillRequest | None = None
) -> tuple[BackfillRecord, ...]:
    chosen = select(backfills).where(mine).order_by(backfills.c.created, backfills.c.name)
    counted = (
        select(
            batches.c.backfill, batches.c.state, func.count().label("slices"), func.sum(planned.c.rows).label("rows")
        )
        .join(planned, and_(planned.c.backfill == batches.c.backfill, planned.c.number == batches.c.number))
        .group_by(batches.c.backfill, batches.c.state)
    )
    if key is not None:
        chosen, counted = chosen.where(backfills.c.name == key), counted.where(batches.c.backfill == key)
    found = [(row, BackfillRequest.from_data(json.loads(row.request))) for row in connection.execute(chosen)]
    if request is not None:
        # Counted are only those that were asked for: another one may have a hundred thousand slices.
        found = [(row, asked) for row, asked in found if asked == request]
        counted = counted.where(batches.c.backfill.in_([row.name for row, _ in found]))
    slices: dict[str, dict[BatchState, int]] = defaultdict(dict)
    rows: dict[str, int] = defaultdict(int)
    for row in connection.execute(counted) if found else ():
        slices[row.backfill][BatchState(row.state)] = row.slices
        rows[row.backfill] += int(row.rows or 0)
    return tuple(
        BackfillRecord(
            name_of(row.name),
            asked,
            BackfillState(row.state),
            row.created,
            slices[row.name],
            rows[row.name],
            tuple(json.loads(row.notes)),
        )
        for row, asked in found
    )


def batches_of(
    connection: Connection, own: OwnRows, key: str, state: BatchState | None = None
) -> tuple[BatchRecord, ...]:
    slices: dict[int, list[PlannedSlice]] = defaultdict(list)
    ends: dict[int, list[SliceEnd]] = defaultdict(list)
    numbers = select(batches.c.number).where(batches.c.backfill == key)
    numbers = numbers if state is None else numbers.where(batches.c.state == state.value)
    of_slices = select(planned).where(planned.c.backfill == key, planned.c.number.in_(numbers))
    for row in connection.execute(of_slices.order_by(planned.c.label)):
        slices[row.number].append(_planned(row))
        if row.outcome is not None:
            ends[row.number].append(_end(row))
    needed: dict[int, list[int]] = defaultdict(list)
    of_needs = select(needs).where(needs.c.backfill == key, needs.c.number.in_(numbers))
    for row in connection.execute(of_needs.order_by(needs.c.needed)):
        needed[row.number].append(row.needed)
    chosen = (
        select(batches)
        .where(batches.c.backfill == key, batches.c.number.in_(numbers))
        .order_by(batches.c.position, batches.c.number)
    )
    return tuple(
        BatchRecord(
            row.number,
            own.owner.task_of(row.task),
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
        stored = json.loads(row.comparison)
        sums = {name: (old, new) for name, (old, new) in stored["sums"].items()}
        comparison = Comparison(stored["identical"], stored["rows_before"], stored["rows"], sums)
    return SliceEnd(row.label, row.outcome, row.rows, row.fingerprint, comparison)
