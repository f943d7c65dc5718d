"""Rows without a key are identified by their slice alone: under a redeclared scope they are not appended again."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from twice import Daily, Every, Hourly, Monthly, Since, Whole, append_once, insert_new, read, task
from twice.core.ports import Column
from twice.core.results.run import Outcome
from twice.core.scope import Scope, slice_named
from twice.core.task import Strategy, TableName, Task
from twice.errors import TableTaken
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.takeover import Takeover, take_over
from twice.targets.memory.rows import Rows

from .conftest import Bench

EVENTS = TableName("shop.events")
COLUMNS = (Column("event_id", "bigint"), Column("day", "date"), Column("at", "timestamp"))
AT = datetime(2026, 6, 9, 1, 15, tzinfo=timezone.utc)
DAILY = Daily("day", start="2026-06-01")
ZONED = Daily("at", start="2026-06-01", zone="Europe/Berlin")
HALF = Every("at", start="2026-06-01T00:00", minutes=30)
QUARTER = Every("at", start="2026-06-01T00:00", minutes=15)


def feed(scope: Scope, write: Strategy | None = None, name: str = "feed") -> Task:
    by = scope.cursor if isinstance(scope, Since) else getattr(scope, "column", None)
    inputs = {"events": read("shop.events", by=by) if by else read("shop.events")}
    return task("shop.revenue", scope=scope, inputs=inputs, write=write or append_once(), name=name)(_same)


def _same(events: Rows) -> Rows:
    return events


def run(bench: Bench, declared: Task, label: str | None) -> Outcome:
    bench.declare(declared)
    return run_task(bench.context, declared, (slice_named(declared.scope, label),)).outcome


@pytest.fixture
def stocked(bench: Bench) -> Bench:
    bench.put(EVENTS, Rows(COLUMNS, ((1, date(2026, 6, 9), AT),)))
    return bench


@pytest.mark.parametrize(
    ("scope", "label"),
    [
        (Monthly("day", start="2026-06"), "2026-06"),
        (Hourly("at", start="2026-06-01T00"), "2026-06-09T01"),
        (HALF, "2026-06-09T01:00"),
        (Whole(), None),
        (Since("event_id", initial=0), None),
    ],
    ids=lambda each: type(each).__name__,
)
def test_slices_of_another_grain_are_not_appended_beside_the_days_that_are_there(
    stocked: Bench, scope: Scope, label: str | None
) -> None:
    run(stocked, feed(DAILY), "2026-06-09")
    with pytest.raises(TableTaken) as refused:
        run(stocked, feed(scope), label)
    assert "shop.revenue holds slices of another scope, such as 2026-06-09: append_once() would add" in str(
        refused.value
    )
    assert len(stocked.revenue) == 1
    assert run(stocked, feed(DAILY), "2026-06-09") is Outcome.ALREADY


@pytest.mark.parametrize(
    ("before", "first", "after", "second"),
    [
        (HALF, "2026-06-09T01:00", QUARTER, "2026-06-09T01:15"),
        (QUARTER, "2026-06-09T01:15", HALF, "2026-06-09T01:00"),
        (DAILY, "2026-06-09", ZONED, "2026-06-08"),
        (ZONED, "2026-06-09", Daily("at", start="2026-06-01", zone="Pacific/Auckland"), "2026-06-10"),
    ],
)
def test_nor_slices_whose_labels_look_alike(
    stocked: Bench, before: Scope, first: str, after: Scope, second: str
) -> None:
    run(stocked, feed(before), first)
    with pytest.raises(TableTaken, match="rows would be appended a second time"):
        run(stocked, feed(after), second)
    assert len(stocked.revenue) == 1


def test_plan_and_a_takeover_by_another_name_are_the_way_on(stocked: Bench) -> None:
    run(stocked, feed(HALF), "2026-06-09T01:00")
    later = stocked.declare(feed(DAILY))
    with pytest.raises(TableTaken):
        explain(stocked.context, later, slice_named(DAILY, "2026-06-10"))
    renamed = stocked.declare(feed(Every("at", start="2026-06-10T00:00", minutes=15), name="quarters"))
    take_over(stocked.context, renamed, Takeover("ana", "quarters of an hour from the 10th on"))
    assert run(stocked, renamed, "2026-06-10T00:15") is Outcome.PUBLISHED


def test_rows_with_a_key_may_be_cut_otherwise_at_any_time(stocked: Bench) -> None:
    run(stocked, feed(DAILY, insert_new("event_id")), "2026-06-09")
    assert run(stocked, feed(Whole(), insert_new("event_id")), None) is Outcome.PUBLISHED
    assert len(stocked.revenue) == 1


def test_another_start_and_another_name_of_the_column_are_the_same_cut(stocked: Bench) -> None:
    run(stocked, feed(HALF), "2026-06-09T01:00")
    assert (
        run(stocked, feed(Every("at", start="2026-06-05T00:00", minutes=30)), "2026-06-09T01:30") is Outcome.PUBLISHED
    )
