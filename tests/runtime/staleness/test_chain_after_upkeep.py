"""What a chain follows after the ledger was pruned, or lost and rebuilt: what is not known counts as stale, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, RuntimeSetup, revenue_task
from tests.runtime.run.test_run_many import made, merged_days, nine_days, stale
from tests.runtime.upkeep.test_rebuild_ledger import lose_the_ledger

from twice import Daily, merge, read, task
from twice import replace as replace_rows
from twice.core.ports import Column
from twice.core.project.project import assemble
from twice.core.task import TableName, Task
from twice.runtime.run.chain import TaskEnd
from twice.runtime.run.run_many import run_all
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.prune import prune
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.targets.memory.rows import Rows

COLUMNS = (Column("id", "bigint"), Column("changed", "date"), Column("day", "date"), Column("amount", "bigint"))
CHANGES, REPORT = TableName("shop.changes"), TableName("shop.report")
TODAY, X, Y = date(2026, 6, 9), date(2026, 6, 1), date(2026, 6, 2)
UNKNOWN = "there is no record of which version of its input shop.revenue it read"


def reporting(runtime: RuntimeSetup, source: str, by: str, above: Task) -> Task:
    below = task(
        "shop.report",
        scope=Daily(by, start="2026-01-01"),
        inputs={"rows": read(source, by=by)},
        write=replace_rows(),
        name="report",
    )(lambda rows: rows)
    runtime.context = replace(runtime.context, project=assemble("p", [above, below]))
    return below


def merged_twice(runtime: RuntimeSetup) -> None:
    """A day that was published three times: X and Y were reported after the first, the second changed a row of X, the
    third one of Y; whoever should have made the reports again was killed."""
    copy = task(
        "shop.copy",
        scope=Daily("changed", start="2026-01-01"),
        inputs={"changes": read("shop.changes", by="changed")},
        write=merge("id", order="any"),
        name="copy",
    )(lambda changes: changes)
    report = reporting(runtime, "shop.copy", "day", copy)

    def deliver(*rows: tuple[int, date, date, int]) -> None:
        runtime.put(CHANGES, Rows(COLUMNS, rows))
        run(copy, TODAY)

    def run(declared: Task, day: date) -> None:
        run_task(runtime.context, declared, (declared.scope.slice_of(day.isoformat()),))  # type: ignore[union-attr]

    deliver((1, TODAY, X, 10))
    run(report, X)
    run(report, Y)
    deliver((1, TODAY, X, 11))
    deliver((1, TODAY, X, 11), (2, TODAY, Y, 5))


def pruned(runtime: RuntimeSetup) -> None:
    runtime.clock.ahead += timedelta(days=3)
    assert prune(runtime.context, None, timedelta(days=1)).ledger.attempts


def followed(ends: tuple[TaskEnd, ...], name: str = "report") -> list[tuple[str, str]]:
    assert not [end for end in ends if end.error or end.waits_for]
    return [(r.slices[0].label[-2:], r.outcome.value) for end in ends if end.task == name for r in end.results]


@pytest.mark.parametrize("upkeep", [lambda runtime: None, pruned], ids=["kept", "pruned"])
def test_a_chain_follows_what_an_earlier_publish_of_the_day_changed(runtime: RuntimeSetup, upkeep: Any) -> None:
    merged_twice(runtime)
    upkeep(runtime)
    ends = run_all(runtime.context, "2026-06-09", None)
    assert all(end.error is None and not end.stale for end in ends)
    assert [row[3] for row in runtime.target.read(REPORT).rows if row[2] == X] == [11]


def test_what_was_made_after_the_pruned_publishes_is_not_followed_again(runtime: RuntimeSetup) -> None:
    merged_twice(runtime)
    pruned(runtime)
    assert [label for label, _ in followed(run_all(runtime.context, "2026-06-09", None))] == ["01", "02", "09"]
    assert [label for label, _ in followed(run_all(runtime.context, "2026-06-09", None))] == ["09"]


def test_after_a_prune_a_chain_of_a_new_day_follows_only_what_it_changed(runtime: RuntimeSetup) -> None:
    """Its own publishes are all known: what went is of other days."""
    tasks = merged_days(runtime)
    for day in (1, 2):  # published once more, so that there is something to prune
        runtime.put_orders(*[(n, at, 2 * n) for n, at, _ in nine_days(9)])
        made(runtime, tasks, f"2026-06-{day:02d}")
    pruned(runtime)
    runtime.put_orders(*nine_days(10, order3=10))
    assert made(runtime, tasks, "2026-06-10")["day"] == [("03", "published"), ("10", "published")]


def two_days(runtime: RuntimeSetup, tmp_path: Path) -> Task:
    """Published, and then the ledger was lost and rebuilt."""
    report = reporting(runtime, "shop.revenue", "order_date", revenue_task(lookback=1))
    for day in ("2026-06-09", "2026-06-10"):
        run_all(runtime.context, day, None)
    lose_the_ledger(runtime, tmp_path)
    rebuild_ledger(runtime.context, None)
    return report


def test_after_a_rebuild_what_reads_a_day_that_lookback_made_again_is_made_again(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    two_days(runtime, tmp_path)
    runtime.put_orders((1, DAY, 10), (2, DAY, 5), (3, NEXT, 7), (4, DAY, 100))  # late
    ends = run_all(runtime.context, "2026-06-10", None)
    assert runtime.revenue == [(DAY, 115), (NEXT, 7)]
    assert not [stale for end in ends for stale in end.stale]
    assert sorted(runtime.target.read(REPORT).rows) == runtime.revenue


def test_after_a_rebuild_status_and_a_backfill_call_stale_what_nobody_knows_until_a_run_found_it_right(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    report = two_days(runtime, tmp_path)
    slices = tuple(report.scope.slice_of(day) for day in ("2026-06-09", "2026-06-10"))  # type: ignore[union-attr]

    def planned() -> list[str]:
        return [each.status for each in slice_statuses(runtime.context, report, slices, None)]

    assert stale(runtime) == {"report[09]": UNKNOWN, "report[10]": UNKNOWN}
    assert planned() == ["stale", "stale"]
    right = [(day, "already published") for day in ("09", "10")]
    assert followed(run_all(runtime.context, "2026-06-10", None)) == right
    assert (stale(runtime), planned()) == ({}, ["published", "published"])
    for _ in range(2):
        assert followed(run_all(runtime.context, "2026-06-10", None)) == right[1:]
    pruned(runtime)
    assert (stale(runtime), planned()) == ({}, ["published", "published"])


def test_after_a_rebuild_all_that_reads_a_merged_table_is_looked_at_once(runtime: RuntimeSetup, tmp_path: Path) -> None:
    tasks = merged_days(runtime)
    runtime.put_orders(*nine_days(9, order3=9))
    made(runtime, tasks[:1], "2026-06-09")  # it died after the first task
    lose_the_ledger(runtime, tmp_path)
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    rebuild_ledger(runtime.context, None)
    found = made(runtime, tasks, "2026-06-09")["day"]
    assert [label for label, outcome in found if outcome == "published"] == ["03", "09"]
    assert len(found) == 9
    assert stale(runtime) == {}
    runtime.put_orders(*nine_days(10, order3=9, order4=10))
    assert made(runtime, tasks, "2026-06-10")["day"] == [("04", "published"), ("10", "published")]
