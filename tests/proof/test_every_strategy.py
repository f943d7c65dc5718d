"""Every strategy but replace (test_crash_on_delta.py) dies at every failpoint on real Delta and is run again: the same
table, the same tokens, the same mark as if nothing had happened."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import Any

import pytest

from twice.core.failpoints import Crash, Point, armed, crash_at
from twice.core.scope import slice_named
from twice.core.since import told
from twice.runtime.mark import show_mark
from twice.runtime.run_many import run_slices

from .delta_world import DeltaWorld, delta_world
from .sequences import START, Row
from .tables import loose_files, tokens


def rows_of(at: int) -> list[Row]:
    """Two ids that every day has, and one of its own; the day's own minute."""
    day, seen = date(2026, 6, 1) + timedelta(days=at), START + timedelta(minutes=at)
    return [(id_, day, seen, 10 * at + id_) for id_ in (1, 2, 100 + at)]


def run(world: DeltaWorld, task: str, label: str | None) -> None:
    declared = world.shop.project.task(task)
    run_slices(world.shop, declared, (slice_named(declared.scope, label),), "run", None)


def crash(world: DeltaWorld, task: str, label: str | None, point: Point) -> None:
    with pytest.raises(Crash), armed(crash_at(point)):
        run(world, task, label)
    world.pass_time()


def newest(source: list[Row]) -> Counter[Row]:
    held: dict[int, Row] = {}
    for row in source:
        held[row[0]] = max(row, held.get(row[0], row), key=lambda row: row[2])
    return Counter(held.values())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("task", ["merged", "inserted", "raw"])
def test_a_slice_that_dies_anywhere_and_is_run_again_is_written_once(spark: Any, task: str) -> None:
    """One day for each failpoint, the newest first, so that the slices come out of order as well."""
    with delta_world(spark) as world:
        days = [rows_of(at) for at in reversed(range(len(Point)))]
        world.arrive([row for rows in days for row in rows])
        for point, rows in zip(Point, days, strict=True):
            label = rows[0][1].isoformat()
            crash(world, task, label, point)
            run(world, task, label)
            run(world, task, label)
        source = [row for rows in days for row in rows]
        assert world.rows(f"shop.{task}") == (newest(source) if task == "merged" else Counter(source))
        labels = [f"twice/p/{task}/{rows[0][1].isoformat()}" for rows in days]
        assert tokens(world.folder / "warehouse/shop" / task) == [(label, 1) for label in labels]
        assert loose_files(world.folder / "warehouse/shop" / task) == []
        assert not world.shop.ledger.open_attempts()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("task", ["feed", "log"])
def test_an_incremental_load_that_dies_anywhere_loses_no_row_and_doubles_none(spark: Any, task: str) -> None:
    """New rows arrive before each failpoint; what came with the mark's own stamp, later, is there too."""
    with delta_world(spark) as world:
        source: list[Row] = []
        for at, point in enumerate(Point):
            source += rows_of(at) if at == 0 else [*rows_of(at), (200 + at, *rows_of(at - 1)[0][1:])]
            world.arrive(source[-4:] if at else source)
            crash(world, task, None, point)
            run(world, task, None)
        mark = max(row[2] for row in source)
        kept = newest(source) if task == "feed" else Counter(row for row in source if row[2] < mark)
        assert world.rows(f"shop.{task}") == kept
        assert show_mark(world.shop, world.shop.project.task(task)).at == told(mark)
        assert loose_files(world.folder / "warehouse/shop" / task) == []
        assert not world.shop.ledger.open_attempts()
