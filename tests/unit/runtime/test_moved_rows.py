"""merge(delete_missing): a row that moved to another day with an older stamp gives way to the one that is to be
deleted, and comes in once that is gone, whichever day runs first."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from twice import Daily, merge, read, task
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column
from twice.core.results.run import Outcome
from twice.core.task import TableName, Task
from twice.errors import Superseded
from twice.ledgers.ledger import Ledger
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.rebuild import rebuild
from twice.targets.memory.rows import Rows

from .conftest import Bench

SOURCE, COPY = TableName("shop.source"), TableName("shop.copy")
COLUMNS = (Column("id", "bigint"), Column("day", "date"), Column("stamp", "bigint"))
MONDAY, TUESDAY = date(2026, 6, 8), date(2026, 6, 9)
CORRECTED = (1, MONDAY, 10)


@pytest.fixture
def declared(bench: Bench) -> Task:
    """Published, and then corrected at its source: day and stamp of a row were wrong."""
    declare = task(
        "shop.copy",
        scope=Daily("day", start="2026-01-01"),
        inputs={"rows": read("shop.source", by="day")},
        write=merge("id", newest_by="stamp", delete_missing=True),
        name="copy",
    )
    copied = bench.declare(declare(lambda rows: rows))
    bench.put(SOURCE, Rows(COLUMNS, ((1, TUESDAY, 20),)))
    for day in (MONDAY, TUESDAY):
        bench.run(copied, day.isoformat())
    bench.put(SOURCE, Rows(COLUMNS, (CORRECTED,)))
    return copied


def table(bench: Bench) -> list[tuple[int, date, int]]:
    return list(bench.target.read(COPY).rows)


@pytest.mark.parametrize("order", [(MONDAY, TUESDAY), (TUESDAY, MONDAY)], ids=["new day first", "old day first"])
def test_a_row_that_moved_with_an_older_stamp_is_there_whichever_day_runs_first(
    bench: Bench, declared: Task, order: tuple[date, ...]
) -> None:
    for _ in range(2):
        for day in order:
            bench.run(declared, day.isoformat())
    assert table(bench) == [CORRECTED]
    assert {bench.run(declared, day.isoformat()).outcome for day in order} == {Outcome.ALREADY}


def test_a_run_whose_rows_gave_way_says_so_and_what_to_do_and_is_stale(bench: Bench, declared: Task) -> None:
    first = bench.run(declared, MONDAY.isoformat())
    assert (
        first.changes is not None
        and str(first.changes) == "1 older ignored, 1 of the older ones newer in another slice"
    )
    assert (
        "1 row was left out: another slice holds a newer row of its key. If that slice should have lost it, run "
        "that slice, then this one again."
    ) in first.notes
    why = "rows of it gave way to newer ones of other slices, or an input had no version"
    (status,) = slice_statuses(bench.context, declared, (declared.scope.slice_of("2026-06-08"),), None)  # type: ignore[union-attr]
    assert (status.status, status.why) == ("stale", why)
    again = bench.run(declared, MONDAY.isoformat())
    assert (again.outcome, again.why) == (Outcome.PUBLISHED, why)
    bench.run(declared, TUESDAY.isoformat())
    assert not bench.run(declared, MONDAY.isoformat()).notes


@pytest.mark.parametrize("how", ["look", "rebuild", "lost ledger"])
def test_what_gave_way_is_known_also_where_the_run_died_after_its_commit(
    bench: Bench, declared: Task, how: str
) -> None:
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        bench.run(declared, MONDAY.isoformat())
    bench.clock.ahead += timedelta(hours=1)
    kept = bench.ledger
    if how == "lost ledger":
        fresh = Ledger.open(f"sqlite:///{bench.context.root}/fresh.db", bench.clock)
        bench.context = replace(bench.context, ledger=fresh)
    if how != "look":
        rebuild(bench.context, None)
    for day in (TUESDAY, MONDAY):
        bench.run(declared, day.isoformat())
    assert table(bench) == [CORRECTED]
    if kept is not bench.ledger:
        kept.close()
    bench.ledger.close()


def test_two_at_once_whose_rows_gave_way_cannot_show_that_they_are_the_same(bench: Bench, declared: Task) -> None:
    def overtaken(point: object) -> None:
        if point is Point.PUBLISHING and not overtakers:
            overtakers.append(bench.ledger.attempts("copy")[0].id)
            bench.clock.ahead += timedelta(hours=1)
            bench.run(declared, MONDAY.isoformat())

    overtakers: list[str] = []
    with armed(overtaken), pytest.raises(Superseded, match="it cannot be shown that it read the same inputs"):
        bench.run(declared, MONDAY.isoformat())


def test_the_newest_row_of_a_key_in_two_days_at_once_stays_whichever_day_runs_last(
    bench: Bench, declared: Task
) -> None:
    bench.put(SOURCE, Rows(COLUMNS, (CORRECTED, (1, TUESDAY, 20))))
    for day in (MONDAY, TUESDAY, MONDAY):
        bench.run(declared, day.isoformat())
        assert table(bench) == [(1, TUESDAY, 20)]
