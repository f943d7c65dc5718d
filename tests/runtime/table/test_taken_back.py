"""A table that was another task's, and was taken back: what was published before may not be what it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup
from tests.runtime.table.test_watched import WHO, amounts, copying, hundredfold, project_of, run

from twice import Daily, Policy, Since, append_once, audit, merge
from twice import replace as replace_rows
from twice.core.results.run import Outcome, RunRequest
from twice.core.scope import slice_named
from twice.core.task import Task
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.runtime.upkeep.takeover import take_over
from twice.targets.memory.rows import Rows

DAY = "2026-06-09"
SINCE = Since("order_id", initial=0)
WHY = "the table was another task's since it was published, and taken back: its rows may be the other's"


def never(**more: Any) -> Task:
    return replace(copying("a", replace_rows()), policy=Policy(rerun="never"), **more)


def taken_and_taken_back(
    runtime: RuntimeSetup, old: Task, label: str | None = DAY, function: Callable[[Rows], Rows] = hundredfold
) -> RunContext:
    """The other has written over its rows meanwhile."""
    replaces = isinstance(old.scope, Daily) and old.write.restatable
    new = copying("b", replace_rows() if replaces else merge("order_id", order="any"), function=function)
    theirs, ours = project_of(runtime, old), project_of(runtime, new)
    run(theirs, old, label)
    take_over(ours, new, WHO)
    run(ours, new, DAY)
    assert max(amounts(runtime)) == 1000 or function is not hundredfold
    take_over(theirs, old, WHO)
    return theirs


def test_a_slice_that_is_never_computed_again_is_after_its_table_was_taken_back(runtime: RuntimeSetup) -> None:
    old = never()
    context = taken_and_taken_back(runtime, old)
    result = run_task(context, old, (slice_named(old.scope, DAY),))
    assert (result.outcome, result.why) == (Outcome.PUBLISHED, WHY)
    assert amounts(runtime) == [5, 10]
    assert run(context, old, DAY) is Outcome.ALREADY


@pytest.mark.parametrize("lost", ["", "the ledger", "the log", "the ledger and the log"])
def test_plan_and_backfill_and_run_say_so_whatever_was_lost(
    runtime: RuntimeSetup, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    old = never()
    context = taken_and_taken_back(runtime, old)
    if "log" in lost:
        monkeypatch.setattr(runtime.target, "provenance", lambda *_, **__: None)
    if "ledger" in lost:
        ledger = Ledger.open(f"sqlite:///{tmp_path}/new.db", runtime.clock)
        context = replace(context, ledger=ledger)
        rebuild_ledger(context, None)
    (found,) = slice_statuses(context, old, (slice_named(old.scope, DAY),), None)
    assert (found.status, found.why) == ("stale", WHY)
    planned = explain(context, old, slice_named(old.scope, DAY))
    assert (planned.compute, planned.why) == (True, WHY)
    assert run(context, old, DAY) is Outcome.PUBLISHED
    assert amounts(runtime) == [5, 10]


def test_of_many_slices_the_log_is_asked_once(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    old, days = never(), [f"2026-06-{day:02}" for day in range(8, 20)]
    for day in days:
        run(project_of(runtime, old), old, day)
    context = taken_and_taken_back(runtime, old)
    monkeypatch.setattr(runtime.target, "provenance", lambda *_, **__: pytest.fail("each of them is a search"))
    found = slice_statuses(context, old, tuple(slice_named(old.scope, day) for day in days), None)
    assert {(each.status, each.why) for each in found} == {("stale", WHY)}


def test_a_restatement_is_not_compared_with_what_was_published_before_the_table_was_taken(
    runtime: RuntimeSetup,
) -> None:
    old = never()
    context = taken_and_taken_back(runtime, old)
    result = run_task(context, old, (slice_named(old.scope, DAY),), RunRequest("restate"))
    assert result.outcome is not Outcome.IDENTICAL


def test_what_must_not_shrink_is_compared_with_what_the_other_task_left(runtime: RuntimeSetup) -> None:
    old = never(audits=(audit.not_shrunk(to=1),))
    context = taken_and_taken_back(runtime, old, function=lambda orders: replace(orders, rows=orders.rows[:1]))
    runtime.put_orders((1, date(2026, 6, 9), 7))
    result = run_task(context, old, (slice_named(old.scope, DAY),))
    assert (result.outcome, result.audits[0].message) == (Outcome.PUBLISHED, "1 rows, 1 before")


def test_an_incremental_task_says_that_rows_up_to_its_mark_may_be_the_others(runtime: RuntimeSetup) -> None:
    old = copying("a", merge("order_id", order="any"), SINCE)
    context = taken_and_taken_back(runtime, old, None)
    for _ in range(2):
        result = run_task(context, old, (SINCE.only,))
        assert result.outcome is Outcome.NOTHING_NEW
        assert result.notes == (
            "shop.copy was another task's, and taken back, after since was published: rows up to the mark may have "
            "been replaced, and are not read again by themselves: twice mark reset a --to … reads them again",
        )
    reset_mark(context, old, Reset("0", "ana", "read all of it again"))
    result = run_task(context, old, (SINCE.only,))
    assert (result.outcome, result.notes) == (Outcome.PUBLISHED, ())
    assert run_task(context, old, (SINCE.only,)).notes == ()


def test_what_was_appended_says_that_it_may_have_been_replaced(runtime: RuntimeSetup) -> None:
    old = copying("a", append_once())
    context = taken_and_taken_back(runtime, old)
    result = run_task(context, old, (slice_named(old.scope, DAY),))
    assert result.outcome is Outcome.ALREADY
    assert result.notes == (
        f"shop.copy was another task's, and taken back, after {DAY} was published: what it appended may have been "
        "replaced, and is not appended again",
    )
    assert run_task(context, old, (slice_named(old.scope, "2026-06-10"),)).notes == ()
    assert run_task(context, old, (slice_named(old.scope, "2026-06-10"),)).notes == (), "it came after the takeover"
