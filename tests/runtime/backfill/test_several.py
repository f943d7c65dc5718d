"""A backfill of several tasks: which slices of each, and what is left out."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup
from tests.runtime.starting import start_if_any

from twice import Daily, Hourly, Monthly, Since, Whole, append_once, read, task
from twice import replace as replace_rows
from twice.core.backfill.plan import BackfillRequest
from twice.core.project.project import assemble
from twice.core.task import Task
from twice.errors import UsageError
from twice.runtime.backfill.several import Range, Requests, requests_of, whole_range
from twice.runtime.backfill.worker import Stop, work

JUNE = Range("2026-06-02", "2026-06-30")


def job(name: str, scope: Any, write: Any = None, by: str | None = None) -> Task:
    def copied(orders: Any) -> Any:
        return orders

    inputs = {"orders": read("shop.orders", by=by)}
    return task(f"shop.{name}", name=name, scope=scope, write=write or replace_rows(), inputs=inputs)(copied)


DAYS = job("days", Daily("order_date", start="2026-01-01"), by="order_date")
MONTHS = job("months", Monthly("order_date", start="2026-01"))
HOURS = job("hours", Hourly("at", start="2026-06-10T00"))
WHOLE = job("whole", Whole())
LATER = job("later", Daily("order_date", start="2027-01-01"))


def asked(runtime: RuntimeSetup, *tasks: Task, range_: Range = JUNE, **options: Any) -> Requests:
    return requests_of(runtime.ledger, tasks, range_, partial(BackfillRequest, **options))


def ends(found: Requests) -> dict[str, tuple[str, str]]:
    return {each.task: (each.first, each.last) for each in found.each}


def test_each_task_takes_the_slices_that_the_two_days_lie_in(runtime: RuntimeSetup) -> None:
    found = asked(runtime, DAYS, MONTHS, HOURS)
    assert ends(found) == {
        "days": ("2026-06-02", "2026-06-30"),
        "months": ("2026-06", "2026-06"),
        "hours": ("2026-06-10T00", "2026-06-30T23"),
    }


def test_what_cannot_be_backfilled_is_left_out_by_name_and_keeps_no_other_from_it(runtime: RuntimeSetup) -> None:
    found = asked(runtime, WHOLE, DAYS, LATER)
    assert list(ends(found)) == ["days"]
    assert found.left_out == {
        "whole": "its work is not cut by time; twice run whole makes it right",
        "later": "2026-06-30 is before the task's start, 2027-01-01",
    }


def test_what_cannot_be_computed_again_is_left_out_of_a_restatement(runtime: RuntimeSetup) -> None:
    log = job("log", Daily("order_date", start="2026-01-01"), append_once(), by="order_date")
    found = asked(runtime, log, DAYS, restate=True)
    assert (list(ends(found)), list(found.left_out)) == (["days"], ["log"])


def test_where_nothing_is_left_that_is_said(runtime: RuntimeSetup) -> None:
    with pytest.raises(UsageError, match="none of these tasks can be backfilled .whole: its work is not cut by time"):
        asked(runtime, WHOLE)


def test_without_a_range_it_goes_from_the_start_to_the_newest_slice_on_record(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(DAYS)
    assert whole_range(runtime.ledger, declared, declared.scope) == ("2026-01-01", "2026-01-01")  # type: ignore[arg-type]
    for day in ("2026-06-10", "2026-06-09"):
        runtime.run(declared, day)
    assert ends(asked(runtime, declared, range_=Range(), only=("stale",))) == {"days": ("2026-01-01", "2026-06-10")}


@pytest.mark.parametrize("only", [("missing",), ("missing", "failed"), ("stale", "missing"), ("published",)])
def test_what_is_not_on_record_needs_a_range(only: Any) -> None:
    with pytest.raises(UsageError, match="a backfill needs"):
        Range().check(only)
    Range().check(("stale", "failed"))
    JUNE.check(only)


def test_where_there_is_nothing_to_do_nothing_is_stored(runtime: RuntimeSetup) -> None:
    runtime.run(runtime.declare(DAYS))
    (request,) = asked(runtime, DAYS, range_=Range(), only=("stale",)).each
    assert start_if_any(runtime.context, request) is None
    assert runtime.ledger.backfills.records() == ()
    runtime.code[0] = "v2"
    begun = start_if_any(runtime.context, request)
    assert begun is not None
    record, plan = begun
    assert plan is not None
    assert [(slice_.label, slice_.status) for _, slice_ in plan.slices] == [("2026-06-09", "stale")]
    resumed = start_if_any(runtime.context, request)
    assert resumed is not None, "an unfinished one is resumed"
    assert (resumed[0].name, resumed[1]) == (record.name, None)
    work(runtime.context, record.name, lambda _: None, Stop.never())
    assert start_if_any(runtime.context, request) is None


def test_an_incremental_task_is_left_out(runtime: RuntimeSetup) -> None:
    events = job("events", Since("order_id", initial=0), append_once(), by="order_id")
    project = assemble("p", [events, DAYS])
    assert list(asked(runtime, *project.in_order()).left_out) == ["events"]
