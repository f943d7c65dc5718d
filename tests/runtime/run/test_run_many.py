"""A chain: every task after those it reads from, whatever its scope; a failure stops only what depends on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup

from twice import Daily, Every, Hourly, Monthly, Outcome, Since, Whole, days, insert_new, merge, read, task
from twice import replace as replace_rows
from twice.core.ledger.code_parts import TaskCode
from twice.core.ledger.record import ClaimRequest
from twice.core.ports import Touched
from twice.core.project.project import assemble
from twice.core.results.run import RunResult
from twice.core.task import Task
from twice.errors import Interrupted, SliceBusy, UsageError, UserCodeError
from twice.runtime.run.chain import TaskEnd, run_in_order
from twice.runtime.run.explain import explain_run
from twice.runtime.run.run_many import run_all, run_slices, slices_of_day
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.stale import stale_slices

DAY = "2026-06-09"
DAILY = Daily("order_date", start="2026-01-01")


def job(name: str, source: str, scope: Any = DAILY, write: Any = None, by: str | None = "order_date") -> Task:
    def copied(rows: Any) -> Any:
        if name == "broken":
            raise RuntimeError("no")
        return rows

    inputs = {"rows": read(source, by=by)}
    return task(f"shop.{name}", name=name, scope=scope, write=write or replace_rows(), inputs=inputs)(copied)


def chain(runtime: RuntimeSetup, *tasks: Task, date: str | None = DAY) -> dict[str, TaskEnd]:
    context = replace(runtime.context, project=assemble("p", tasks))

    def run(declared: Task) -> tuple[RunResult, ...]:
        return run_slices(context, declared, slices_of_day(declared, date))

    return {end.task: end for end in run_in_order(context.project, run)}


def test_a_chain_reports_each_task_when_it_ended(runtime: RuntimeSetup) -> None:
    messages: list[str] = []

    def stopping(rows: Any) -> Any:
        assert messages == ["copy"]
        raise KeyboardInterrupt

    inputs = {"rows": read("shop.copy", by="order_date")}
    below = task("shop.below", name="below", scope=DAILY, write=replace_rows(), inputs=inputs)(stopping)
    context = replace(runtime.context, project=assemble("p", [job("copy", "shop.orders"), below]))
    with pytest.raises(KeyboardInterrupt):
        run_all(context, DAY, None, lambda end: messages.append(end.task))
    assert messages == ["copy"]


BACK_TWO = Daily("order_date", start="2026-01-01", lookback=2)
BACK = ("2026-06-07", "2026-06-08")


def held(runtime: RuntimeSetup, *labels: str) -> None:
    """Another process has them in hand."""
    for label in labels:
        runtime.ledger.claim(ClaimRequest("copy", [label], f"other-{label}", "run", "host:1"), timedelta(minutes=5))


def asked_for(declared: Task) -> tuple[Any, ...]:
    return (declared.scope.slice_of(DAY),)  # type: ignore[union-attr]


def test_of_several_slices_a_busy_one_does_not_hide_what_was_published(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(job("copy", "shop.orders", BACK_TWO))
    held(runtime, BACK[0])
    with pytest.raises(SliceBusy) as caught:
        run_slices(runtime.context, declared, asked_for(declared))
    error = caught.value
    assert error.where == f"copy[{BACK[0]}]"
    assert error.now == f"This command left the slice to it. Published, of the same call: {BACK[1]}, {DAY}."
    assert [result.slices[0].label for result in error.results] == [BACK[1], DAY]
    assert {result.outcome for result in error.results} == {Outcome.PUBLISHED}


def test_every_slice_that_failed_is_named(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(job("copy", "shop.orders", BACK_TWO))
    held(runtime, BACK[0], DAY)
    with pytest.raises(SliceBusy) as caught:
        run_slices(runtime.context, declared, asked_for(declared))
    assert caught.value.now.endswith(f"Published, of the same call: {BACK[1]}. Failed, too: copy[{DAY}] (busy).")


def test_a_failed_slice_does_not_say_that_the_table_is_unchanged_when_others_were_published(
    runtime: RuntimeSetup,
) -> None:
    def copied(rows: Any, run: Any) -> Any:
        if run.slice.label == BACK[1]:
            raise RuntimeError("no")
        return rows

    inputs = {"rows": read("shop.orders", by="order_date")}
    declared = runtime.declare(
        task("shop.copy", name="copy", scope=BACK_TWO, write=replace_rows(), inputs=inputs)(copied)
    )
    with pytest.raises(UserCodeError) as caught:
        run_slices(runtime.context, declared, asked_for(declared))
    assert caught.value.now == f"This attempt changed nothing. Published, of the same call: {BACK[0]}, {DAY}."


def test_an_interrupt_says_what_the_call_had_published(runtime: RuntimeSetup) -> None:
    def stopping(rows: Any, run: Any) -> Any:
        if run.slice.label == DAY:
            raise KeyboardInterrupt
        return rows

    inputs = {"rows": read("shop.orders", by="order_date")}
    declared = task("shop.copy", name="copy", scope=BACK_TWO, write=replace_rows(), inputs=inputs)(stopping)
    context = replace(runtime.context, project=assemble("p", [declared]))
    with pytest.raises(Interrupted) as caught:
        run_slices(context, declared, asked_for(declared))
    assert caught.value.error.now == f"This attempt changed nothing. Published, of the same call: {', '.join(BACK)}."
    ends: list[TaskEnd] = []
    with pytest.raises(Interrupted):
        run_all(context, DAY, None, ends.append)
    assert [[result.slices[0].label for result in end.results] for end in ends] == [[*BACK]]


def test_a_chain_reports_the_slices_of_a_task_that_ended_before_one_failed(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(job("copy", "shop.orders", BACK_TWO))
    held(runtime, BACK[1])
    (end,) = run_all(runtime.context, DAY, None)
    assert isinstance(end.error, SliceBusy)
    assert [result.slices[0].label for result in end.results] == [BACK[0], DAY]
    assert declared.name == end.task


def test_a_plan_names_every_slice_that_the_run_would_look_at(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(job("copy", "shop.orders", Daily("order_date", start="2026-01-01", lookback=1)))
    slice_ = declared.scope.slice_of("2026-06-10")  # type: ignore[union-attr]
    planned = explain_run(runtime.context, declared, slice_)
    assert [(each.label, each.compute) for each in planned] == [(DAY, True), ("2026-06-10", True)]
    made = run_slices(runtime.context, declared, (slice_,))
    assert [result.slices[0].label for result in made] == [each.label for each in planned]
    assert str(replace(planned[1], earlier=planned[:1])).endswith(", after 1 earlier slice")


def test_a_chain_runs_days_marks_and_whole_tables_in_the_order_of_their_inputs(runtime: RuntimeSetup) -> None:
    tasks = (
        job("whole", "shop.day", Whole(), by=None),
        job("day", "shop.copy"),
        job("copy", "shop.orders", Since("order_date", initial="2026-01-01"), insert_new("order_id")),
    )
    ends = chain(runtime, *tasks)
    assert list(ends) == ["copy", "day", "whole"]
    assert [end.results[0].outcome for end in ends.values()] == [Outcome.PUBLISHED] * 3
    assert [end.results[0].slices[0].rows for end in ends.values()] == [3, 2, 2]
    again = chain(runtime, *tasks)
    assert [end.results[0].outcome for end in again.values()] == [Outcome.NOTHING_NEW, Outcome.ALREADY, Outcome.ALREADY]


def test_a_failed_task_stops_only_what_depends_on_it(runtime: RuntimeSetup) -> None:
    ends = chain(
        runtime,
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
    with pytest.raises(UsageError, match="any: 2026-02-30 is not a day"):
        slices_of_day(job("any", "shop.orders"), "2026-02-30")
    with pytest.raises(UsageError, match="2025-12-31 is before the task's start, 2026-01-01"):
        slices_of_day(job("any", "shop.orders"), "2025-12-31")
    with pytest.raises(UsageError, match="no date given"):
        slices_of_day(job("any", "shop.orders"), None)


LATE = (date(2026, 6, 8), date(2026, 6, 9), date(2026, 6, 10))


def late_orders(runtime: RuntimeSetup, amount: int) -> None:
    """Three days; of the second an order came late."""
    runtime.put_orders((1, LATE[0], 1), (2, LATE[1], amount), (3, LATE[2], 3))


def looking_back(runtime: RuntimeSetup) -> tuple[Task, ...]:
    """A parent that also makes yesterday right, its reader, the reader's reader, a total and a moving sum."""
    return (
        job("copy", "shop.orders", Daily("order_date", start="2026-01-01", lookback=1)),
        job("below", "shop.copy"),
        job("far_below", "shop.below"),
        job("total", "shop.far_below", Whole(), by=None),
    )


def made(runtime: RuntimeSetup, tasks: tuple[Task, ...], day: str) -> dict[str, list[tuple[str, str]]]:
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    ends = run_all(runtime.context, day, None)
    assert not [end for end in ends if end.error or end.waits_for]
    return {end.task: [(r.slices[0].label[-2:], r.outcome.value) for r in end.results] for end in ends}


def stale(runtime: RuntimeSetup) -> dict[str, str]:
    project = runtime.context.project
    found = [each for one in project.in_order() for each in stale_slices(project, runtime.ledger, one)]
    return {f"{each.task}[{each.slice.label[-2:]}]": each.why for each in found}


def test_what_reads_a_slice_that_the_chain_made_again_is_made_again_down_the_graph(runtime: RuntimeSetup) -> None:
    tasks = looking_back(runtime)
    late_orders(runtime, 2)
    made(runtime, tasks, "2026-06-08")
    made(runtime, tasks, "2026-06-09")
    late_orders(runtime, 20)
    found = made(runtime, tasks, "2026-06-10")
    both = [("09", "published"), ("10", "published")]
    assert (found["copy"], found["below"], found["far_below"]) == (both, both, both)
    rows = runtime.target.read(tasks[2].target).rows
    assert sorted(row[2] for row in rows) == [1, 3, 20]
    assert stale(runtime) == {}


def test_of_other_code_and_an_input_that_was_published_again_status_reports_both(runtime: RuntimeSetup) -> None:
    tasks = (job("copy", "shop.orders"), job("below", "shop.copy"))
    late_orders(runtime, 2)
    made(runtime, tasks, "2026-06-09")
    late_orders(runtime, 20)
    run_task(runtime.context, tasks[0], slices_of_day(tasks[0], "2026-06-09"))
    (found,) = stale_slices(runtime.context.project, runtime.ledger, tasks[1], TaskCode("v2"))
    again = "its input shop.copy was published again since: copy[2026-06-09]"
    assert found.why.replace("delta:", "").replace("memory:", "") == f"the code or its options changed, and {again}"


def test_what_a_broken_chain_did_not_follow_the_next_one_does(runtime: RuntimeSetup) -> None:
    tasks = looking_back(runtime)
    late_orders(runtime, 2)
    made(runtime, tasks, "2026-06-09")
    late_orders(runtime, 20)
    made(runtime, tasks[:1], "2026-06-10")  # it died after the first task
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    assert stale(runtime) == {
        "below[09]": "its input shop.copy was published again since: copy[2026-06-09]",
    }
    found = made(runtime, tasks, "2026-06-10")
    assert found["copy"] == [("09", "already published"), ("10", "already published")]
    assert found["below"] == found["far_below"] == [("09", "published"), ("10", "published")]
    assert stale(runtime) == {}


@pytest.mark.parametrize("done", [1, 2, 3])
def test_wherever_a_chain_broke_off_the_next_one_completes_it(runtime: RuntimeSetup, done: int) -> None:
    tasks = looking_back(runtime)
    late_orders(runtime, 2)
    made(runtime, tasks, "2026-06-09")
    late_orders(runtime, 20)
    made(runtime, tasks[:done], "2026-06-10")
    found = made(runtime, tasks, "2026-06-10")
    assert found["total"] == [("ll", "published")]
    assert sorted(row[2] for row in runtime.target.read(tasks[3].target).rows) == [3, 20]
    assert stale(runtime) == {}


def test_a_chain_whose_middle_task_failed_follows_on_from_there(runtime: RuntimeSetup) -> None:
    tasks = looking_back(runtime)
    late_orders(runtime, 2)
    made(runtime, tasks, "2026-06-09")
    late_orders(runtime, 20)
    failing = [True]

    def copied(rows: Any) -> Any:
        if failing[0] and any(row[1] == LATE[2] for row in rows.rows):
            raise RuntimeError("no")
        return rows

    inputs = {"rows": read("shop.copy", by="order_date")}
    middle = task("shop.below", name="below", scope=DAILY, write=replace_rows(), inputs=inputs)(copied)
    tasks = (tasks[0], middle, *tasks[2:])
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    assert [end.task for end in run_all(runtime.context, "2026-06-10", None) if end.error] == ["below"]
    failing[0] = False
    made(runtime, tasks, "2026-06-10")
    assert stale(runtime) == {}


def test_what_reads_a_table_that_was_dropped_and_made_again_is_followed(runtime: RuntimeSetup) -> None:
    """Its versions start over: the newest publish has a smaller one than those that were read."""
    tasks = looking_back(runtime)
    for day in ("2026-06-08", "2026-06-09"):
        late_orders(runtime, 2)
        made(runtime, tasks, day)
    for each in tasks[:2]:
        runtime.target._tables.pop(each.target.name)
    late_orders(runtime, 20)
    made(runtime, tasks[:1], "2026-06-10")
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    assert "below[09]" in stale(runtime)
    found = made(runtime, tasks, "2026-06-10")
    assert found["far_below"] == [("09", "published"), ("10", "published")]
    assert sorted(row[2] for row in runtime.target.read(tasks[2].target).rows) == [1, 3, 20]
    recreated = "was recreated, or replaced by an older copy, since it was read"
    assert stale(runtime) == {
        "below[08]": f"its input shop.copy {recreated}",
        "far_below[08]": f"its input shop.below {recreated}",
    }, "what only the old table held is reported"


def merged_days(runtime: RuntimeSetup, scope: Any = DAILY) -> tuple[Task, ...]:
    """Nine days, each read by the day from a table that merges."""
    write = merge("order_id", newest_by="order_date")
    tasks = (job("merged", "shop.orders", scope, write), job("day", "shop.merged"), job("below", "shop.day"))
    for last in range(1, 10):
        runtime.put_orders(*nine_days(last))
        made(runtime, tasks, f"2026-06-{last:02d}")
    return tasks


def nine_days(last: int, **moved: int) -> list[tuple[int, date, int]]:
    return [(n, date(2026, 6, moved.get(f"order{n}", n)), n) for n in range(1, last + 1)]


@pytest.mark.parametrize("scope", [DAILY, Since("order_date", initial="2026-01-01")], ids=["Daily", "Since"])
def test_below_a_merge_only_what_it_changed_is_followed(runtime: RuntimeSetup, scope: Any) -> None:
    """Not every slice ever published, on every night."""
    tasks = merged_days(runtime, scope)
    runtime.put_orders(*nine_days(10))
    assert made(runtime, tasks, "2026-06-10")["day"] == [("10", "published")]
    assert stale(runtime) == {}
    runtime.put_orders(*nine_days(11, order3=11))
    found = made(runtime, tasks, "2026-06-11")
    assert found["day"] == found["below"] == [("03", "published"), ("11", "published")]
    days_of = {row[0]: row[1].day for row in runtime.target.read(tasks[2].target).rows}
    assert (days_of[3], len(days_of)) == (11, 11)
    assert stale(runtime) == {}


def test_the_ledger_names_what_reads_the_day_that_was_merged_again_and_no_other(runtime: RuntimeSetup) -> None:
    tasks = merged_days(runtime)
    runtime.put_orders(*[(n, day, 2 * n) for n, day, _ in nine_days(9)])
    run_slices(runtime.context, tasks[0], slices_of_day(tasks[0], "2026-06-03"))
    assert stale(runtime) == {"day[03]": "its input shop.merged was published again since: merged[2026-06-03]"}


@pytest.mark.parametrize("done", [1, 2])
def test_what_a_merge_changed_before_the_chain_broke_off_is_followed_by_the_next(
    runtime: RuntimeSetup, done: int
) -> None:
    tasks = merged_days(runtime)
    runtime.put_orders(*nine_days(10, order3=10))
    made(runtime, tasks[:done], "2026-06-10")
    runtime.put_orders(*nine_days(10, order3=10, order4=10))
    found = made(runtime, tasks, "2026-06-10")
    changed = [("03", "published")] if done == 1 else []
    assert found["day"] == [*changed, ("04", "published"), ("10", "published")]
    assert sorted(row[0] for row in runtime.target.read(tasks[2].target).rows) == list(range(1, 11))
    rows = runtime.target.read(tasks[2].target).rows
    assert {row[0]: row[1].day for row in rows} == {**{n: n for n in range(1, 11)}, 3: 10, 4: 10}
    assert stale(runtime) == {}


def test_where_no_log_shows_what_a_merge_changed_all_that_reads_it_is_followed(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = merged_days(runtime)
    touched = runtime.target.touched

    def forgotten(*asked: Any) -> Touched | None:
        found = touched(*asked)
        return None if found is None else replace(found, spans=None)

    monkeypatch.setattr(runtime.target, "touched", forgotten)
    runtime.put_orders(*nine_days(10, order3=10))
    found = made(runtime, tasks, "2026-06-10")["day"]
    assert [label for label, outcome in found if outcome == "published"] == ["03", "10"]
    assert len(found) == 10


def test_a_merged_table_that_was_dropped_and_made_again_is_followed_everywhere(runtime: RuntimeSetup) -> None:
    tasks = merged_days(runtime)
    runtime.target._tables.pop(tasks[0].target.name)
    runtime.put_orders(*nine_days(10))
    found = made(runtime, tasks, "2026-06-10")["day"]
    assert [label for label, outcome in found if outcome == "published"] == [f"{n:02d}" for n in range(1, 11)]


def test_a_slice_below_that_nobody_ever_published_is_not_made_on_the_way(runtime: RuntimeSetup) -> None:
    tasks = looking_back(runtime)
    late_orders(runtime, 2)
    found = made(runtime, tasks, "2026-06-10")
    assert found["copy"] == [("09", "published"), ("10", "published")]
    assert found["below"] == [("10", "published")]


def test_what_is_stale_for_other_reasons_is_reported_and_left(runtime: RuntimeSetup) -> None:
    tasks = (job("copy", "shop.orders"), job("below", "shop.copy"))
    late_orders(runtime, 2)
    for day in ("2026-06-08", "2026-06-09"):
        made(runtime, tasks, day)
    late_orders(runtime, 20)
    run_slices(runtime.context, tasks[0], slices_of_day(tasks[0], "2026-06-09"))
    ends = run_all(runtime.context, "2026-06-10", None)
    left = {end.task: [(each.slice.label, each.why) for each in end.stale] for end in ends}
    why = "its input shop.copy was published again since: copy[2026-06-09]"
    assert left == {"copy": [], "below": [("2026-06-09", why)]}
    runtime.code[0] = "v2"
    ends = run_all(runtime.context, "2026-06-10", None)
    assert [each.slice.label[-2:] for each in ends[0].stale] == ["08", "09"]
    assert {each.why for each in ends[0].stale} == {"the code or its options changed"}


def weekly(start: str = "2026-01-01") -> Task:
    """A moving sum: each day reads the day before, too."""
    return task(
        "shop.weekly",
        name="weekly",
        scope=Daily("order_date", start=start),
        write=replace_rows(),
        inputs={"rows": read("shop.copy", by="order_date", before=days(1))},
    )(lambda rows: replace(rows, rows=tuple(sorted(rows.rows))[-1:]))


def test_a_reader_of_a_week_is_stale_in_every_day_that_reads_the_one_made_again(runtime: RuntimeSetup) -> None:
    tasks = (job("copy", "shop.orders"), weekly())
    late_orders(runtime, 2)
    for day in ("2026-06-08", "2026-06-09", "2026-06-10"):
        made(runtime, tasks, day)
    late_orders(runtime, 20)
    run_slices(runtime.context, tasks[0], slices_of_day(tasks[0], "2026-06-09"))
    assert sorted(stale(runtime)) == ["weekly[09]", "weekly[10]"]


def test_a_task_that_begins_later_is_left_out_by_name_and_the_others_run(runtime: RuntimeSetup) -> None:
    tasks = (job("copy", "shop.orders"), job("new", "shop.copy", Daily("order_date", start="2026-07-01")))
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    copy, new = run_all(runtime.context, DAY, None)
    assert copy.results[0].outcome is Outcome.PUBLISHED
    assert (new.results, new.left_out) == ((), "2026-06-09 is before the task's start, 2026-07-01")


def test_what_a_task_that_begins_later_read_of_the_date_is_followed(runtime: RuntimeSetup) -> None:
    tasks = (job("copy", "shop.orders"), weekly(start="2026-06-10"))
    late_orders(runtime, 2)
    for day in ("2026-06-09", "2026-06-10"):
        made(runtime, tasks, day)
    late_orders(runtime, 20)
    _, below = run_all(runtime.context, "2026-06-09", None)
    assert [result.slices[0].label for result in below.results] == ["2026-06-10"]
    assert below.left_out is None
    assert stale(runtime) == {}


def test_where_every_task_begins_later_the_date_is_wrong(runtime: RuntimeSetup) -> None:
    runtime.context = replace(runtime.context, project=assemble("p", (job("copy", "shop.orders"),)))
    with pytest.raises(UsageError, match="2025-06-09 is before the task's start"):
        run_all(runtime.context, "2025-06-09", None)


def test_a_task_that_begins_at_noon_does_the_afternoon() -> None:
    declared = job("hourly", "shop.orders", Hourly("at", start=f"{DAY}T22"), by=None)
    assert [slice_.label[-2:] for slice_ in slices_of_day(declared, DAY)] == ["22", "23"]
