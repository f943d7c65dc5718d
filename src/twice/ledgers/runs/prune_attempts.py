"""Letting go of old attempts: one walk through them, oldest first, however many there are.

What each slice keeps is asked once, when the walk comes to the first of its attempts: asked again for every part, a
history of five million attempts would be read ten thousand times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, delete, exists, func, or_, select

from twice.core.ledger.record import TABLE, AttemptState
from twice.core.table.mark import LAST_OF_KINDS
from twice.ledgers.database.own_rows import OF_TASK, OwnRows
from twice.ledgers.database.schema import (
    LEFTOVER_STATES,
    OPEN_STATES,
    attempts,
    audits,
    inputs,
    leases,
    runs,
    slices,
)

PART = 500
"""So many rows go at once: others must not wait for long."""

WINDOW = 20_000
"""So many rows are looked through at once for those that may go: some hundredths of a second."""

_BY_A_PERSON = ("reset", "takeover", "accept", "rebuild", "adopt")
_SLICES = (slices.c.task == OF_TASK, slices.c.label.in_(bindparam("of_any", expanding=True)))
_GENERATIONS = select(runs.c.label, runs.c.generation).where(
    runs.c.task == OF_TASK, runs.c.label.in_(bindparam("of_any", expanding=True))
)


@dataclass(frozen=True)
class _Kept:
    """The attempts that a slice keeps, by their fences, as of a generation of it."""

    generation: int | None
    fences: frozenset[int]


@dataclass
class AttemptWalk:
    """One prune's way through the attempts: after which fence it goes on, and what it has learnt of the slices.

    What a slice keeps may be other by now, but for its generation: newer attempts make more of the old ones
    superfluous, never fewer. Where the generation has moved, also back, the slice is asked again."""

    after: int = 0
    kept: dict[tuple[str, str], _Kept] = field(default_factory=dict)

    def part(self, connection: Connection, own: OwnRows, before: datetime) -> tuple[int, int | None]:
        """Delete those of the next attempts that nothing is decided by any more: how many it were, and the last one
        that was looked at; None at the end. One transaction; a second call goes on where this one did."""
        mine = (own.of_any_table(attempts.c.task), *_is_old(before))
        found, last = next_of(connection, attempts.c.fence, self.after, *mine)
        fences = set(found) - self._still_needed(connection, found)
        if fences:
            for table in (slices, inputs, audits, leases):
                connection.execute(delete(table).where(table.c.fence.in_(fences)))
            connection.execute(delete(attempts).where(attempts.c.fence.in_(fences)))
        return len(fences), last

    def _still_needed(self, connection: Connection, fences: Sequence[int]) -> set[int]:
        of_task: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        found = select(slices.c.task, slices.c.label, slices.c.fence).where(slices.c.fence.in_(fences))
        for task, label, fence in connection.execute(found):
            of_task[task][label].append(fence)
        needed: set[int] = set()
        for task, held in of_task.items():
            self._learn(connection, task, sorted(held))
            for label, tried in held.items():
                needed.update(self.kept[task, label].fences.intersection(tried))
        return needed

    def _learn(self, connection: Connection, task: str, labels: Sequence[str]) -> None:
        present: Mapping[str, int] = {
            row.label: row.generation for row in connection.execute(_GENERATIONS, {OF_TASK.key: task, "of_any": labels})
        }
        unknown = [
            label
            for label in labels
            if (task, label) not in self.kept or self.kept[task, label].generation != present.get(label)
        ]
        if not unknown:
            return
        found: dict[str, set[int]] = {label: set() for label in unknown}
        for question in (_CONFIRMING, _FREEZING, _FURTHEST):
            for label, fence in connection.execute(question, {OF_TASK.key: task, "of_any": unknown}):
                found[label].add(fence)
        for label, fences in found.items():
            self.kept[task, label] = _Kept(present.get(label), frozenset(fences))


def next_of(
    connection: Connection, column: ColumnElement[int], after: int, *which: ColumnElement[bool]
) -> tuple[Sequence[int], int | None]:
    """The next few of these rows after one, by their numbers, and where to go on; None where no row follows."""
    window = select(column.label("at")).where(column > after).order_by(column).limit(WINDOW).subquery()
    last: int | None = connection.execute(select(func.max(window.c.at))).scalar_one()
    if last is None:
        return (), None
    chosen = select(column).where(column > after, column <= last, *which).order_by(column).limit(PART)
    found = connection.execute(chosen).scalars().all()
    return found, found[-1] if len(found) == PART else last


def _is_old(before: datetime) -> tuple[ColumnElement[bool], ...]:
    """Ended, and neither the publish that a slice is at, nor its last attempt."""
    return (
        attempts.c.finished < before,
        attempts.c.state.not_in(OPEN_STATES),
        attempts.c.kind.not_in(_BY_A_PERSON),
        or_(attempts.c.discarded, attempts.c.state.not_in(LEFTOVER_STATES)),
        ~exists().where(runs.c.attempt == attempts.c.id),
        ~exists().where(runs.c.last_fence == attempts.c.fence),
    )


def _confirming() -> Select[Any]:
    """By slice and table, the newest attempt that found the slice right up to a version (`facts.read_inputs`); and the
    newest that has recorded for an adopted slice what it is made of beside its tables."""
    table = case((inputs.c.kind == TABLE, inputs.c.name), else_="")
    return (
        select(slices.c.label, func.max(inputs.c.fence))
        .select_from(
            slices.join(attempts, attempts.c.fence == slices.c.fence).join(
                inputs, and_(inputs.c.fence == slices.c.fence, inputs.c.label == slices.c.label)
            )
        )
        .where(*_SLICES, attempts.c.state == AttemptState.UNCHANGED.value, attempts.c.kind.not_in(_BY_A_PERSON))
        .group_by(slices.c.label, table)
    )


def _freezing() -> Select[Any]:
    """By slice, the first attempt that aimed beyond what is published now (`history.frozen_aim`): a retry keeps to
    where it ended."""
    now = and_(runs.c.task == slices.c.task, runs.c.label == slices.c.label, runs.c.generation == slices.c.expected)
    return (
        select(slices.c.label, func.min(slices.c.fence))
        .join(runs, now)
        .where(*_SLICES, slices.c.aim > slices.c.expected)
        .group_by(slices.c.label)
    )


def _furthest() -> Select[Any]:
    """By slice and kind of mark, a publish that came furthest (`history.furthest_aim`): a mark that was set back, also
    later, corrects what is before that."""
    published = (*_SLICES, attempts.c.state == AttemptState.PUBLISHED.value)
    kind = case(*((slices.c.aim <= last, position) for position, last in enumerate(LAST_OF_KINDS)))
    of_slice = slices.join(attempts, attempts.c.fence == slices.c.fence)
    furthest = (
        select(slices.c.label, func.max(slices.c.aim).label("aim"))
        .select_from(of_slice)
        .where(*published)
        .group_by(slices.c.label, kind)
        .subquery()
    )
    there = and_(slices.c.label == furthest.c.label, slices.c.aim == furthest.c.aim)
    return (
        select(slices.c.label, func.max(slices.c.fence))
        .select_from(of_slice.join(furthest, there))
        .where(*published)
        .group_by(slices.c.label, slices.c.aim)
    )


_CONFIRMING, _FREEZING, _FURTHEST = _confirming(), _freezing(), _furthest()
