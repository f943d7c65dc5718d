"""Every strategy, ended in every way at every failpoint and run again, on any target: the same table, the same tokens,
the same mark as if nothing had happened, what was to be sent sent once, and a message that is true of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta

import pytest
from tests.endings import Ending, check_message, end_at

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.scope import slice_named
from twice.core.since import mark_text
from twice.runtime.run.run_many import run_slices
from twice.runtime.upkeep.mark import show_mark

from .histories.project import WITH_EFFECTS
from .histories.sides import Sides
from .histories.steps import START, Row

End = tuple[Ending | None, Point]
"""None: it dies without a handler being called."""

LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
AROUND_THE_COMMIT: dict[str, tuple[End, ...]] = {
    "around the commit": (
        (None, Point.IN_STAGE),
        (Ending.ERROR, Point.BEFORE_COMMIT),
        (Ending.CTRL_C, Point.AFTER_COMMIT),
    )
}
EVERYWHERE = {
    f"{ending.value if ending else 'a crash'}, everywhere": tuple((ending, point) for point in Point)
    for ending in (None, *Ending)
}
ENDS = AROUND_THE_COMMIT | EVERYWHERE


def rows_of(at: int) -> list[Row]:
    """Two ids that every day has, and one of its own; the day's own minute."""
    day, seen = date(2026, 6, 1) + timedelta(days=at), START + timedelta(minutes=at)
    return [(id_, day, seen, 10 * at + id_) for id_ in (1, 2, 100 + at)]


def walk_days(warehouses: Sides, task: str, ends: Sequence[End]) -> None:
    """One day for each end, the newest first, so that the slices come out of order as well."""
    days = [rows_of(at) for at in reversed(range(len(ends)))]
    warehouses.arrive(0, [row for rows in days for row in rows])
    for how, rows in zip(ends, days, strict=True):
        label = rows[0][1].isoformat()
        _end(warehouses, task, label, how)
        run(warehouses, task, label)
        run(warehouses, task, label)
    source = [row for rows in days for row in rows]
    assert warehouses.rows(0, f"shop.{task}") == (_newest(source) if task == "merged" else Counter(source))
    labels = [rows[0][1].isoformat() for rows in days]
    assert warehouses.tokens(0, task) == [(f"twice/p/{task}/{label}", 1) for label in labels]
    assert warehouses.commits(0, task) == len(days), "one commit per generation"
    sent = [(task, label) for label in labels] if task in WITH_EFFECTS else []
    assert sorted(warehouses.sent[0]) == sorted(sent)
    _check_nothing_left(warehouses, task)


def walk_windows(warehouses: Sides, task: str, ends: Sequence[End]) -> None:
    """New rows arrive before each end; what came with the mark's own stamp, later, is there too."""
    source = rows_of(0)
    warehouses.arrive(0, source)
    for at, how in enumerate(ends, start=1):
        new = [*rows_of(at), (200 + at, *rows_of(at - 1)[0][1:])]
        warehouses.arrive(0, new)
        source += new
        _end(warehouses, task, None, how)
        run(warehouses, task, None)
    mark = max(row[2] for row in source)
    kept = _newest(source) if task == "feed" else Counter(row for row in source if row[2] < mark)
    assert warehouses.rows(0, f"shop.{task}") == kept
    assert show_mark(warehouses.context(0), warehouses.context(0).project.task(task)).at == mark_text(mark)
    _check_nothing_left(warehouses, task)


def run(warehouses: Sides, task: str, label: str | None) -> None:
    declared = warehouses.context(0).project.task(task)
    run_slices(warehouses.context(0), declared, (slice_named(declared.scope, label),))


def _end(warehouses: Sides, task: str, label: str | None, how: End) -> None:
    """End a run in this way at this point. Nobody waits for a lease but after a crash."""
    ending, point = how
    if ending is None:
        with pytest.raises(Crash), armed(crash_at(point)):
            run(warehouses, task, label)
        return warehouses.pass_time()
    before = warehouses.commits(0, task)
    ended = end_at(point, ending, lambda: run(warehouses, task, label))
    landed = warehouses.commits(0, task) > before
    assert landed or point not in LANDED, how
    if point is not Point.AFTER_PLAN:  # nothing is claimed yet, and nothing is said of the table
        check_message(ended, ending, landed)


def _newest(source: list[Row]) -> Counter[Row]:
    held: dict[int, Row] = {}
    for row in source:
        held[row[0]] = max(row, held.get(row[0], row), key=lambda row: row[2])
    return Counter(held.values())


def _check_nothing_left(warehouses: Sides, task: str) -> None:
    assert warehouses.left(0, task) == []
    assert not warehouses.context(0).ledger.open_attempts()
