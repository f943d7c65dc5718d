"""Every strategy is ended at every failpoint on real Delta, in every way, and is run again: the same table, the same
tokens, the same mark as if nothing had happened, and a message that is true of the table. Real kills:
test_crash_on_delta.py."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from tests.endings import Ending, check_message, end_at
from tests.sample import sample

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.core.scope import slice_named
from twice.core.since import mark_text
from twice.errors import TableTaken
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_many import run_slices
from twice.runtime.upkeep.mark import show_mark
from twice.runtime.upkeep.takeover import Takeover, take_over

from .histories.delta_warehouses import DeltaWarehouses, delta_warehouses
from .histories.project import project
from .histories.steps import INCREMENTAL, START, Row
from .tables import loose_files, tokens

End = tuple[Ending | None, Point]
"""None: it dies without a handler being called."""

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
WALKS = pytest.mark.parametrize("walk", sample(ENDS, of=AROUND_THE_COMMIT))
LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)


def rows_of(at: int) -> list[Row]:
    """Two ids that every day has, and one of its own; the day's own minute."""
    day, seen = date(2026, 6, 1) + timedelta(days=at), START + timedelta(minutes=at)
    return [(id_, day, seen, 10 * at + id_) for id_ in (1, 2, 100 + at)]


def run(warehouses: DeltaWarehouses, task: str, label: str | None) -> None:
    declared = warehouses.context(0).project.task(task)
    run_slices(warehouses.context(0), declared, (slice_named(declared.scope, label),))


def end(warehouses: DeltaWarehouses, task: str, label: str | None, how: End) -> None:
    """End a run in this way at this point. Nobody waits for a lease but after a crash."""
    ending, point = how
    if ending is None:
        with pytest.raises(Crash), armed(crash_at(point)):
            run(warehouses, task, label)
        return warehouses.pass_time()
    before = versions(warehouses, task)
    ended = end_at(point, ending, lambda: run(warehouses, task, label))
    landed = versions(warehouses, task) > before
    assert landed or point not in LANDED, how
    if point is not Point.AFTER_PLAN:  # nothing is claimed yet, and nothing is said of the table
        check_message(ended, ending, landed)


def versions(warehouses: DeltaWarehouses, task: str) -> int:
    return len(list((warehouses.folder / "dev/shop" / task / "_delta_log").glob("*.json")))


def newest(source: list[Row]) -> Counter[Row]:
    held: dict[int, Row] = {}
    for row in source:
        held[row[0]] = max(row, held.get(row[0], row), key=lambda row: row[2])
    return Counter(held.values())


@pytest.mark.timeout(600)
@WALKS
@pytest.mark.parametrize("task", ["daily", "merged", "inserted", "raw"])
def test_a_slice_that_ends_anywhere_and_is_run_again_is_written_once(spark: Any, task: str, walk: str) -> None:
    """One day for each failpoint, the newest first, so that the slices come out of order as well."""
    with delta_warehouses(spark) as warehouses:
        days = [rows_of(at) for at in reversed(range(len(ENDS[walk])))]
        warehouses.arrive(0, [row for rows in days for row in rows])
        for how, rows in zip(ENDS[walk], days, strict=True):
            label = rows[0][1].isoformat()
            end(warehouses, task, label, how)
            run(warehouses, task, label)
            run(warehouses, task, label)
        source = [row for rows in days for row in rows]
        assert warehouses.rows(0, f"shop.{task}") == (newest(source) if task == "merged" else Counter(source))
        labels = [f"twice/p/{task}/{rows[0][1].isoformat()}" for rows in days]
        assert tokens(warehouses.folder / "dev/shop" / task) == [(label, 1) for label in labels]
        assert loose_files(warehouses.folder / "dev/shop" / task) == []
        assert not warehouses.context(0).ledger.open_attempts()


@pytest.mark.timeout(600)
def test_a_renamed_task_of_any_strategy_writes_nothing_until_formerly_names_it(spark: Any) -> None:
    with delta_warehouses(spark) as warehouses:
        warehouses.arrive(0, rows_of(0) + rows_of(1))
        label = rows_of(0)[0][1].isoformat()
        for name, declared in project().tasks.items():
            slices = (slice_named(declared.scope, None if name in INCREMENTAL else label),)
            run_slices(warehouses.context(0), declared, slices)
            rows, held = warehouses.rows(0, f"shop.{name}"), tokens(warehouses.folder / "dev/shop" / name)
            renamed = replace(declared, name=f"{name}_new")
            for project_id in ("p", "q"):  # a new name, and the new name in another project
                shop = replace(warehouses.context(0), project=assemble(project_id, [renamed]))
                with pytest.raises(TableTaken, match=f"published by the task {name}"):
                    run_slices(shop, renamed, slices)
            known = replace(renamed, formerly=(name,))
            shop = replace(warehouses.context(0), project=assemble("p", [known]))
            ledger = warehouses.context(0).ledger
            assert isinstance(ledger, Ledger)
            ledger.rename(name, known.name)
            (end,) = run_slices(shop, known, slices)
            assert end.outcome in (Outcome.ALREADY, Outcome.NOTHING_NEW), name
            assert (warehouses.rows(0, f"shop.{name}"), tokens(warehouses.folder / "dev/shop" / name)) == (rows, held)
        for path in (warehouses.folder / "dev/shop/raw/_delta_log").glob("*.crc"):
            path.unlink()  # Delta keeps no list of so many tokens beside a commit: a job over the log finds them
        raw = replace(project().tasks["raw"], name="r")
        shop = replace(warehouses.context(0), project=assemble("p", [raw]))
        slices = (slice_named(raw.scope, label),)
        with pytest.raises(TableTaken, match="1 slice that was published by the task raw"):
            run_slices(shop, raw, slices)
        assert take_over(shop, raw, Takeover("ana", "so")) == {"the task raw": 1}
        (end,) = run_slices(shop, raw, slices)
        assert (end.outcome, len(warehouses.rows(0, "shop.raw"))) == (Outcome.PUBLISHED, 3)
        assert warehouses.rows(0, "shop.raw").total() == 6


@pytest.mark.timeout(600)
@WALKS
@pytest.mark.parametrize("task", ["feed", "log"])
def test_an_incremental_load_that_ends_anywhere_loses_no_row_and_doubles_none(spark: Any, task: str, walk: str) -> None:
    """New rows arrive before each failpoint; what came with the mark's own stamp, later, is there too."""
    with delta_warehouses(spark) as warehouses:
        source = rows_of(0)
        warehouses.arrive(0, source)
        for at, how in enumerate(ENDS[walk], start=1):
            new = [*rows_of(at), (200 + at, *rows_of(at - 1)[0][1:])]
            warehouses.arrive(0, new)
            source += new
            end(warehouses, task, None, how)
            run(warehouses, task, None)
        mark = max(row[2] for row in source)
        kept = newest(source) if task == "feed" else Counter(row for row in source if row[2] < mark)
        assert warehouses.rows(0, f"shop.{task}") == kept
        assert show_mark(warehouses.context(0), warehouses.context(0).project.task(task)).at == mark_text(mark)
        assert loose_files(warehouses.folder / "dev/shop" / task) == []
        assert not warehouses.context(0).ledger.open_attempts()
