"""A chain: every task after those it reads from, whatever its scope; a failure stops only what depends on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twice import Daily, Every, Hourly, Monthly, Outcome, Since, Whole, insert_new, read, task
from twice import replace as replace_rows
from twice.core.project import assemble
from twice.core.run import RunResult
from twice.core.task import Task
from twice.errors import UsageError, UserCodeError
from twice.runtime.run_many import TaskEnd, run_in_order, run_slices, slices_of_day

from .conftest import Bench

DAY = "2026-06-09"
DAILY = Daily("order_date", start="2026-01-01")


def job(name: str, source: str, scope: Any = DAILY, write: Any = None, by: str | None = "order_date") -> Task:
    def copied(rows: Any) -> Any:
        if name == "broken":
            raise RuntimeError("no")
        return rows

    inputs = {"rows": read(source, by=by)}
    return task(f"shop.{name}", name=name, scope=scope, write=write or replace_rows(), inputs=inputs)(copied)


def chain(bench: Bench, *tasks: Task, date: str | None = DAY) -> dict[str, TaskEnd]:
    shop = replace(bench.shop, project=assemble("p", tasks))

    def run(declared: Task) -> tuple[RunResult, ...]:
        return run_slices(shop, declared, slices_of_day(declared, date), "run", None)

    return {end.task: end for end in run_in_order(shop.project, run)}


def test_a_chain_runs_days_marks_and_whole_tables_in_the_order_of_their_inputs(bench: Bench) -> None:
    tasks = (
        job("whole", "shop.day", Whole(), by=None),
        job("day", "shop.copy"),
        job("copy", "shop.orders", Since("order_date", initial="2026-01-01"), insert_new("order_id")),
    )
    ends = chain(bench, *tasks)
    assert list(ends) == ["copy", "day", "whole"]
    assert [end.results[0].outcome for end in ends.values()] == [Outcome.PUBLISHED] * 3
    assert [end.results[0].slices[0].rows for end in ends.values()] == [3, 2, 2]
    again = chain(bench, *tasks)
    assert [end.results[0].outcome for end in again.values()] == [Outcome.NOTHING_NEW, Outcome.ALREADY, Outcome.ALREADY]


def test_a_failed_task_stops_only_what_depends_on_it(bench: Bench) -> None:
    ends = chain(
        bench,
        job("broken", "shop.orders"),
        job("behind", "shop.broken"),
        job("far_behind", "shop.behind", Whole(), by=None),
        job("beside", "shop.orders"),
    )
    assert isinstance(ends["broken"].error, UserCodeError)
    assert (ends["behind"].waits_for, ends["far_behind"].waits_for) == ("broken", "behind")
    assert ends["beside"].results[0].outcome is Outcome.PUBLISHED


@pytest.mark.parametrize(
    ("scope", "labels"),
    [
        (DAILY, [DAY]),
        (Daily("at", start="2026-01-01", zone="Europe/Berlin"), [DAY]),
        (Monthly("at", start="2026-01"), ["2026-06"]),
        (Hourly("at", start="2026-01-01T00"), [f"{DAY}T{hour:02d}" for hour in range(24)]),
        (Every("at", start="2026-01-01T00:00", minutes=720), [f"{DAY}T00:00", f"{DAY}T12:00"]),
        (Whole(), ["all"]),
        (Since("at", initial=0), ["since"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_date_of_a_chain_means_a_day_its_hours_or_its_month(scope: Any, labels: list[str]) -> None:
    by = "at" if isinstance(scope, Since) else None
    declared = job("any", "shop.orders", scope, insert_new("id"), by)
    assert [slice_.label for slice_ in slices_of_day(declared, DAY)] == labels


def test_a_chain_may_be_given_one_hour_if_all_its_tasks_have_hours() -> None:
    declared = job("hourly", "shop.orders", Hourly("at", start="2026-01-01T00"), by=None)
    assert [slice_.label for slice_ in slices_of_day(declared, f"{DAY}T13")] == [f"{DAY}T13"]


def test_a_date_that_is_none_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="any: 2026-02-30 is no day"):
        slices_of_day(job("any", "shop.orders"), "2026-02-30")
    with pytest.raises(UsageError, match="2025-12-31 is before the task's start, 2026-01-01"):
        slices_of_day(job("any", "shop.orders"), "2025-12-31")
    with pytest.raises(UsageError, match="no date given"):
        slices_of_day(job("any", "shop.orders"), None)
