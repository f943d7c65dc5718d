"""Rows of a merge that are equally new: one table whatever order the slices run in, and a correction that lands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import permutations
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup
from tests.runtime.starting import start

from twice import Daily, Monthly, Since, merge, read, task
from twice.core.backfill.plan import BackfillRequest
from twice.core.failure.failpoints import Point, armed
from twice.core.ports import Column
from twice.core.task import TableName, Task
from twice.errors import TwiceError
from twice.runtime.backfill.worker import Event, Stop, work
from twice.runtime.run.run_many import run_slices
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.targets.memory.rows import Rows

CHANGES, PRODUCTS = TableName("shop.changes"), TableName("shop.products")
COLUMNS = (Column("id", "bigint"), Column("day", "date"), Column("version", "bigint"), Column("price", "bigint"))
DAYS = [date(2026, 6, day) for day in (1, 2, 3)]
Change = tuple[int, date, int, int]


def products(runtime: RuntimeSetup, *rows: Change, plus: int = 0, scope: Any = None) -> Task:
    """Every day's changes, merged by id; `plus` is what another version of the code adds to each price."""

    def priced(changes: Rows) -> Rows:
        return Rows((COLUMNS[0], *COLUMNS[2:]), tuple((row[0], row[2], row[3] + plus) for row in changes.rows))

    runtime.put(CHANGES, Rows(COLUMNS, rows))
    by = getattr(scope, "cursor", "day")
    declare = task(
        "shop.products",
        scope=scope or Daily("day", start="2026-06-01"),
        inputs={"changes": read("shop.changes", by=by)},
        write=merge("id", newest_by="version"),
        name="products",
    )
    return runtime.declare(declare(priced))


def prices(runtime: RuntimeSetup) -> list[int]:
    return [row[-1] for row in sorted(runtime.target.read(PRODUCTS).rows)]


def run(runtime: RuntimeSetup, declared: Task, *days: date, kind: Any = "run") -> list[Any]:
    return [runtime.run(declared, day.isoformat(), kind) for day in days]


TIED: Sequence[Change] = [(1, DAYS[0], 7, 30), (1, DAYS[1], 7, 10), (1, DAYS[2], 7, 20)]


def test_any_order_of_days_gives_the_same_table(runtime: RuntimeSetup) -> None:
    found = []
    for order in permutations(DAYS):
        declared = products(runtime, *TIED)
        run(runtime, declared, *order)
        found.append(prices(runtime))
        runtime.target._tables.pop(PRODUCTS.name)
        for day in DAYS:
            runtime.ledger.forget("products", day.isoformat())
    assert found == [[30]] * 6


def test_a_tie_is_reported_with_the_changes(runtime: RuntimeSetup) -> None:
    declared = products(runtime, *TIED)
    _, second = run(runtime, declared, *DAYS[:2])
    assert second.changes is not None
    assert (second.changes.ties, str(second.changes)) == (1, "1 older ignored, 1 equally new though they differ")


def test_a_day_whose_inputs_changed_wins_no_tie_by_coming_last(runtime: RuntimeSetup) -> None:
    run(runtime, products(runtime, *TIED[:1]), DAYS[0])
    run(runtime, products(runtime, (1, DAYS[0], 7, 25)), DAYS[0])
    assert prices(runtime) == [30]


def test_a_restated_day_wins_its_ties(runtime: RuntimeSetup) -> None:
    run(runtime, products(runtime, *TIED[:1]), DAYS[0])
    run(runtime, products(runtime, (1, DAYS[0], 7, 25)), DAYS[0], kind="restate")
    assert prices(runtime) == [25]


def test_a_day_whose_code_changed_wins_its_ties(runtime: RuntimeSetup) -> None:
    run(runtime, products(runtime, *TIED[:1]), DAYS[0])
    runtime.code[0] = "v2"
    run(runtime, products(runtime, *TIED[:1], plus=-5), DAYS[0])
    assert prices(runtime) == [25]


def test_a_day_that_was_never_published_corrects_nothing_although_the_code_is_new(runtime: RuntimeSetup) -> None:
    run(runtime, products(runtime, *TIED[:1]), DAYS[0])
    runtime.code[0] = "v2"
    run(runtime, products(runtime, *TIED), DAYS[1])
    assert prices(runtime) == [30]


def test_a_mark_that_was_set_back_lets_what_is_read_again_win_also_in_several_steps(runtime: RuntimeSetup) -> None:
    since = Since("version", initial=0)
    rows: list[Change] = [(1, DAYS[0], 7, 30), (2, DAYS[0], 8, 40), (3, DAYS[0], 9, 50)]
    for count in (1, 2, 3):
        run_task(runtime.context, products(runtime, *rows[:count], scope=since), (since.only,))
    runtime.code[0] = "v2"
    corrected = products(runtime, *rows, plus=-5, scope=since)
    reset_mark(runtime.context, corrected, Reset("7", "ada", "prices were too high"))
    results = run_slices(runtime.context, corrected, (since.only,))
    assert [result.mark for result in results] == ["8", "9"]
    assert prices(runtime) == [25, 35, 45]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("why", ["restate", "code"])
def test_a_backfill_that_corrects_takes_its_slices_in_their_order(
    runtime: RuntimeSetup, reverse: bool, why: str
) -> None:
    declared = products(runtime, *TIED)
    run(runtime, declared, *DAYS)
    if why == "code":
        runtime.code[0] = "v2"
        declared = products(runtime, *TIED, plus=1)
    wanted = BackfillRequest(
        "products", "2026-06-01", "2026-06-03", ("stale", "published") if why == "restate" else ("stale",), reverse
    )
    wanted = BackfillRequest(**{**wanted.to_data(), "restate": why == "restate"})
    record, plan = start(runtime.context, wanted)
    assert plan is not None
    assert "oldest first" in plan.notes[-1]
    done: list[Event] = []
    work(runtime.context, record.name, done.append, Stop.never(), parallel=2)
    assert [event.claim.labels for event in done] == [(day.isoformat(),) for day in DAYS]
    assert prices(runtime) == [20 if why == "restate" else 21]


def test_a_backfill_of_missing_days_needs_no_order(runtime: RuntimeSetup) -> None:
    products(runtime, *TIED)
    _, plan = start(runtime.context, BackfillRequest("products", "2026-06-01", "2026-06-03"))
    assert plan is not None
    assert all(not batch.needs for batch in plan.batches)


@pytest.mark.parametrize("fails", [False, True], ids=["stale", "failed"])
def test_days_that_months_lie_over_are_corrected_in_their_order_also_where_they_failed_since(
    runtime: RuntimeSetup, fails: bool
) -> None:
    def full_disk(point: object) -> None:
        if point is Point.AFTER_COMPUTE:
            raise OSError("the disk is full")

    by_day, by_month = Daily("day", start="2026-06-01"), Monthly("day", start="2026-06")
    run(runtime, products(runtime, *TIED), *DAYS)
    runtime.code[0] = "v2"
    monthly = products(runtime, *TIED, plus=1000, scope=by_month)
    run_task(runtime.context, monthly, (by_month.slice_of("2026-06-01"),))
    runtime.code[0] = "v1"
    daily = products(runtime, *TIED, scope=by_day)  # rolled back
    for day in DAYS if fails else ():
        with armed(full_disk), pytest.raises(TwiceError, match="disk is full"):
            run(runtime, daily, day)
    asked = BackfillRequest("products", "2026-06-01", "2026-06-03", ("stale", "failed"), reverse=True, batch="off")
    record, plan = start(runtime.context, asked)
    assert plan is not None
    assert {slice_.status for _, slice_ in plan.slices} == {"failed" if fails else "stale"}
    work(runtime.context, record.name, lambda event: None, Stop.never())
    assert prices(runtime) == [20]
