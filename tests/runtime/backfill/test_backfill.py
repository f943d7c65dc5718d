"""Backfills on the memory target: the plan is frozen, workers carry it out, and nothing is done twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup, summed
from tests.runtime.starting import start

from twice import Daily, Monthly, Since, Whole, append_once, audit, call, days, read, task
from twice import replace as replace_rows
from twice.core.audit import Audit
from twice.core.backfill.plan import BackfillPlan, BackfillRequest, StatusChoice
from twice.core.backfill.result import BackfillRecord, BackfillState, BatchState, as_result
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.record import Claim, ClaimRequest
from twice.core.ports import Column
from twice.core.project.project import assemble
from twice.core.task import TableName, Task
from twice.errors import EnvironmentProblem, UsageError
from twice.runtime.backfill.backfill import cancel, ended_at_once, pause, plan_backfill, resume
from twice.runtime.backfill.worker import Event, Stop, work
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.prune import prune
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender
from twice.targets.memory.rows import Rows

FIRST = date(2026, 1, 1)
ALL: tuple[StatusChoice, ...] = ("missing", "failed", "stale", "published")


def orders(count: int, **amounts: int) -> list[tuple[int, date, int | None]]:
    return [(n, FIRST + timedelta(days=n), amounts.get(f"d{n}", 100 + n)) for n in range(count)]


def revenue(
    function: Callable[..., Any] = summed,
    audits: tuple[Audit, ...] = (),
    batch: bool = True,
    lookback: int = 0,
    write: Any = None,
) -> Task:
    return task(
        "shop.revenue",
        scope=Daily("order_date", start="2026-01-01", batch=batch, lookback=lookback),
        inputs={"orders": read("shop.orders", by="order_date")},
        write=write or replace_rows(),
        audits=audits,
        name="revenue",
    )(function)


def request(last: int = 10, **changes: Any) -> BackfillRequest:
    day = FIRST + timedelta(days=last - 1)
    return replace(BackfillRequest("revenue", "2026-01-01", day.isoformat(), batch="off"), **changes)


def labels(plan: BackfillPlan) -> list[list[str]]:
    return [[slice_.label[-2:] for slice_ in batch.slices] for batch in plan.batches]


def carry_out(runtime: RuntimeSetup, asked: BackfillRequest, **options: Any) -> tuple[BackfillRecord, list[Event]]:
    record, _ = start(runtime.context, asked)
    return go_on(runtime, record.name, **options)


def go_on(
    runtime: RuntimeSetup, name: str, parallel: int = 1, on_event: Any = None
) -> tuple[BackfillRecord, list[Event]]:
    events: list[Event] = []

    def note_event(event: Event) -> None:
        events.append(event)
        if on_event is not None:
            on_event(event)

    return work(runtime.context, name, note_event, Stop.never(), parallel), events


def generations(runtime: RuntimeSetup) -> dict[str, int]:
    return {run.label[-2:]: run.generation for run in runtime.ledger.runs("revenue")}


@pytest.fixture
def filled(runtime: RuntimeSetup) -> RuntimeSetup:
    runtime.put_orders(*orders(40))
    runtime.declare(revenue())
    return runtime


def clean(count: int) -> list[tuple[date, int]]:
    return [(day, amount) for _, day, amount in orders(count)]  # type: ignore[misc]


def test_a_plan_says_which_slices_and_why_and_changes_nothing(filled: RuntimeSetup) -> None:
    run_task(filled.context, filled.context.project.task("revenue"), (revenue().scope.slice_of("2026-01-03"),))  # type: ignore[union-attr]
    plan = plan_backfill(filled.context, request(4))
    assert labels(plan) == [["01"], ["02"], ["04"]]
    assert [slice_.why for _, slice_ in plan.slices] == ["never published"] * 3
    assert plan.left_out == {"published": 1}
    assert filled.ledger.backfills.records() == ()


def test_a_backfill_publishes_every_slice_once_and_equals_single_runs(filled: RuntimeSetup) -> None:
    record, events = carry_out(filled, request(8))
    assert (record.state, record.done, record.failed) == (BackfillState.FINISHED, 8, 0)
    assert [event.kind for event in events] == ["done"] * 8
    assert filled.revenue == clean(8)
    assert set(generations(filled).values()) == {1}


def test_batched_it_is_the_same_table_and_the_same_fingerprints(filled: RuntimeSetup) -> None:
    carry_out(filled, request(8))
    alone = {run.label: run.fingerprint for run in filled.ledger.runs("revenue")}
    version = filled.version
    record, events = carry_out(filled, request(8, batch=3, restate=True, only=ALL))
    assert [len(event.claim.slices) for event in events] == [3, 3, 2]
    assert record.done == 8
    assert filled.version == (version or 0) + 3
    assert {run.label: run.fingerprint for run in filled.ledger.runs("revenue")} == alone
    assert all(end.comparison is not None and end.comparison.identical for event in events for end in event.ends)


def test_after_a_batch_a_single_run_finds_its_slice_published(filled: RuntimeSetup) -> None:
    carry_out(filled, request(10, batch=10))
    declared = filled.context.project.task("revenue")
    assert filled.run(declared, "2026-01-04").why == "same code, same inputs"
    filled.put_orders(*orders(40, d6=1))
    assert plan_backfill(filled.context, request(10, only=("stale",))).slices[0][1].label == "2026-01-07"
    assert filled.run(declared, "2026-01-04").why == "same code, same inputs"
    assert filled.run(declared, "2026-01-07").why == "its inputs changed"


def test_a_batch_never_reaches_over_a_slice_that_is_not_asked_for(filled: RuntimeSetup) -> None:
    filled.run(filled.context.project.task("revenue"), "2026-01-04")
    assert labels(plan_backfill(filled.context, request(8, batch=10))) == [
        ["01", "02", "03"],
        ["05", "06", "07", "08"],
    ]


def test_reverse_takes_the_newest_first(filled: RuntimeSetup) -> None:
    assert labels(plan_backfill(filled.context, request(3, reverse=True))) == [["03"], ["02"], ["01"]]


def test_a_second_start_resumes_the_same_plan_and_a_third_finds_it_complete(filled: RuntimeSetup) -> None:
    record, plan = start(filled.context, request(6))
    assert plan is not None
    claim = filled.ledger.backfills.claim(record.name, "gone", timedelta(0))
    assert claim is not None
    again, fresh = start(filled.context, request(6))
    assert (again.name, fresh) == (record.name, None)
    done, _ = go_on(filled, record.name)
    assert done.complete
    # Nothing is left: the same words are a new question now, with an empty answer.
    other, plan = start(filled.context, request(6))
    assert (other.name, plan and plan.batches) == (f"{record.name}_2", ())


def test_stopped_on_monday_and_resumed_on_friday_it_does_the_same_slices(filled: RuntimeSetup) -> None:
    filled.ledger.backfills.create(plan_backfill(filled.context, request(6), "mine"))
    stop = Stop.never()
    work(filled.context, "mine", lambda event: stop.asked.set(), stop)
    planned = {slice_.label for batch in filled.ledger.backfills.batches("mine") for slice_ in batch.slices}
    # By Friday the inputs have changed and somebody ran one of the days: a new plan would be another.
    filled.put_orders(*orders(40, d0=1, d3=1))
    filled.run(filled.context.project.task("revenue"), "2026-01-05")
    record, events = go_on(filled, "mine")
    assert record.complete and record.total == 6
    assert {label for event in events for label in event.claim.labels} == planned - {"2026-01-01"}


def test_a_name_that_means_something_else_is_refused(filled: RuntimeSetup) -> None:
    start(filled.context, request(3), "mine")
    with pytest.raises(UsageError, match="there is a backfill mine already, and it was asked for something else"):
        start(filled.context, request(4), "mine")


def test_one_bad_day_does_not_stop_the_rest_and_is_named(filled: RuntimeSetup) -> None:
    filled.put_orders(*orders(40, d4=-1))
    filled.declare(revenue(audits=(audit.between("revenue", 0, 10_000),)))
    record, events = carry_out(filled, request(16, batch=16))
    assert (record.done, record.failed) == (15, 1), events
    assert [(event.kind, len(event.claim.slices)) for event in events][:3] == [("split", 16), ("split", 8), ("done", 4)]
    (bad,) = [b for b in filled.ledger.backfills.batches(record.name) if b.state is BatchState.FAILED]
    assert [slice_.label for slice_ in bad.slices] == ["2026-01-05"]
    assert bad.error is not None and bad.error["code"] == "audit-failed"
    filled.put_orders(*orders(40))
    again, events = carry_out(filled, request(16, batch=16))
    assert [event.claim.labels for event in events] == [("2026-01-05",)]
    assert again.complete and again.name == record.name
    assert filled.revenue == clean(16)


@pytest.mark.parametrize(
    ("check", "what"),
    [
        (audit.rows(at_least=1), "0 rows"),
        (audit.unique("revenue"), None),
        (audit.custom(lambda frame: len(frame.rows) == 1, name="one row"), "does not hold"),
        (audit.not_shrunk(to=0.5), "0 rows, 1 before"),
    ],
)
def test_an_audit_judges_each_slice_of_a_batch_as_if_it_came_alone(
    filled: RuntimeSetup, check: Audit, what: str | None
) -> None:
    """Four days with one amount would not be unique together; three days without rows would hide behind the fourth."""
    filled.put_orders(*orders(4, d0=5, d1=5, d2=5, d3=5))
    filled.declare(revenue(audits=(check,)))
    record, _ = carry_out(filled, request(4, batch=4))
    assert record.complete, "every day alone is right"
    if what is None:
        return
    filled.put_orders(*orders(3, d0=5, d1=5, d2=5))
    record, _ = carry_out(filled, request(4, batch=4, restate=True, only=ALL))
    (bad,) = [b for b in filled.ledger.backfills.batches(record.name) if b.state is BatchState.FAILED]
    assert [slice_.label for slice_ in bad.slices] == ["2026-01-04"]
    assert bad.error is not None and what in bad.error["what"]


def test_a_paused_backfill_finishes_the_batch_in_hand_and_resumes_where_it_was(filled: RuntimeSetup) -> None:
    record, _ = start(filled.context, request(6))
    _, events = go_on(filled, record.name, on_event=lambda event: pause(filled.ledger, record.name))
    assert len(events) == 1
    assert len(filled.revenue) == 1
    pause(filled.ledger, record.name)  # a second time changes nothing
    assert resume(filled.ledger, record.name).state is BackfillState.RUNNING
    assert go_on(filled, record.name)[0].complete
    with pytest.raises(UsageError, match="is finished"):
        pause(filled.ledger, record.name)


def test_a_cancelled_backfill_begins_nothing_more_and_only_resume_brings_it_back(filled: RuntimeSetup) -> None:
    record, _ = start(filled.context, request(4))
    cancel(filled.ledger, record.name)
    stopped, events = go_on(filled, record.name)
    assert (stopped.state, events) == (BackfillState.CANCELLED, [])
    resume(filled.ledger, record.name)
    assert go_on(filled, record.name)[0].complete


def test_asked_once_to_stop_the_batch_in_hand_is_finished_and_nothing_is_left_half(filled: RuntimeSetup) -> None:
    record, _ = start(filled.context, request(8, batch=2))
    stop = Stop.never()
    stopped = work(filled.context, record.name, lambda event: stop.asked.set(), stop)
    assert (stopped.done, stopped.open, stopped.state) == (2, 6, BackfillState.RUNNING)
    assert filled.ledger.backfills.held(record.name) == ()
    assert filled.leftovers == []


class JavaCancelled:
    """As much of a Java error as is asked of one: Spark's, for a job that was cancelled."""

    def getClass(self) -> JavaCancelled:  # noqa: N802 - Java's names
        return self

    def getSuperclass(self) -> None:  # noqa: N802
        return None

    def getName(self) -> str:  # noqa: N802
        return "org.apache.spark.SparkException"

    def getMessage(self) -> str:  # noqa: N802
        return "[SPARK_JOB_CANCELLED] Job 7 cancelled as part of cancellation of all jobs"

    def getCause(self) -> None:  # noqa: N802
        return None

    def getCondition(self) -> str:  # noqa: N802
        return "SPARK_JOB_CANCELLED"

    def __getattr__(self, name: str) -> Any:  # it has no such method; py4j says so when it is called
        def missing() -> None:
            raise AttributeError(name)

        return missing


class Cancelled(Exception):
    _origin = JavaCancelled()


@pytest.mark.parametrize("asked", [True, False])
def test_a_slice_whose_jobs_were_cancelled_is_given_back_if_the_worker_was_asked_to_stop(
    filled: RuntimeSetup, asked: bool
) -> None:
    record, _ = start(filled.context, request(2))
    stop = Stop.never()

    def cancel_its_jobs(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and not stop():
            if asked:
                stop.asked.set()
            raise Cancelled

    with armed(cancel_its_jobs), pytest.raises(KeyboardInterrupt) if asked else nullcontext():
        work(filled.context, record.name, lambda event: stop.asked.set(), stop)
    left = filled.ledger.backfills.record(record.name)
    assert left is not None
    assert (left.failed, left.open) == ((0, 2) if asked else (1, 1))


def test_threads_share_the_slices_and_each_is_made_once(filled: RuntimeSetup) -> None:
    record, events = carry_out(filled, request(12), parallel=3)
    assert record.complete
    assert len(events) == 12
    assert filled.revenue == clean(12)
    assert set(generations(filled).values()) == {1}


@pytest.mark.parametrize(
    ("kind", "point"),
    [*(("restate", point) for point in Point), ("run", Point.AFTER_CLAIM), ("run", Point.AFTER_COMMIT)],
)
def test_killed_anywhere_in_a_batch_the_next_worker_publishes_each_slice_exactly_once(
    filled: RuntimeSetup, kind: str, point: Point
) -> None:
    restate = kind == "restate"
    if restate:
        carry_out(filled, request(6, batch=6))
    asked = request(6, batch=3, restate=True, only=ALL) if restate else request(6, batch=3)
    record, _ = start(filled.context, asked)
    with pytest.raises(Crash), armed(crash_at(point)):
        go_on(filled, record.name)
    # As a kill leaves it: the claim is not given back, the lease has to run out.
    filled.clock.ahead += timedelta(hours=1)
    done, _ = go_on(filled, record.name)
    assert done.complete
    assert set(generations(filled).values()) == {2 if restate else 1}
    assert filled.revenue == clean(6)


def test_a_worker_stopped_at_random_any_number_of_times_loses_and_doubles_nothing(filled: RuntimeSetup) -> None:
    chance = random.Random(11)
    record, _ = start(filled.context, request(9, batch=3))
    for _ in range(60):
        point = chance.choice(list(Point))
        act = chance.choice([pause, cancel, None])
        try:
            with armed(crash_at(point) if chance.random() < 0.6 else (lambda _: None)):
                go_on(filled, record.name, on_event=lambda event, act=act: act and act(filled.ledger, record.name))
        except Crash:
            filled.clock.ahead += timedelta(hours=1)
        except UsageError:
            pass  # paused a second after another had cancelled it
        if resume(filled.ledger, record.name).complete:
            break
    assert go_on(filled, record.name)[0].complete
    assert set(generations(filled).values()) == {1}
    assert filled.revenue == clean(9)


def test_restating_says_which_changed_by_how_much_and_which_are_identical(filled: RuntimeSetup) -> None:
    carry_out(filled, request(6))
    filled.put_orders(*orders(40, d2=5000), (99, FIRST + timedelta(days=2), 1))
    asked = request(6, restate=True, only=ALL, batch=4)
    plan = plan_backfill(filled.context, asked)
    assert as_result(plan).restated == 6
    record, _ = carry_out(filled, asked)
    ends = [end for b in filled.ledger.backfills.batches(record.name) for end in b.ends]
    shown = {end.label[-2:]: str(end.comparison) for end in ends}
    assert shown.pop("03") == "CHANGED: +0 rows, revenue 102 -> 5001"
    assert set(shown.values()) == {"IDENTICAL"}


def test_published_slices_are_left_alone_unless_restate_is_requested(filled: RuntimeSetup) -> None:
    with pytest.raises(UsageError, match="only on purpose. Use --restate"):
        plan_backfill(filled.context, request(3, only=ALL))
    carry_out(filled, request(3))
    assert plan_backfill(filled.context, request(3)).batches == ()


def hours_of(first: datetime, count: int) -> tuple[Rows, Callable[[Rows], Rows]]:
    """An event each hour, and the job that keeps them."""
    columns = (Column("at", "timestamp"), Column("day", "date"))
    instants = [first + timedelta(hours=n) for n in range(count)]
    return Rows(columns, tuple((at, at.date()) for at in instants)), lambda events: events


@pytest.mark.parametrize("batch", ["off", 10])
@pytest.mark.parametrize(
    ("scope", "asked", "rows"),
    [
        (
            Daily("at", start="2026-01-01", zone="America/New_York", batch=True),
            ("2026-03-07", "2026-03-09"),
            {"2026-03-07": 24, "2026-03-08": 23, "2026-03-09": 24},
        ),
        (
            Daily("at", start="2026-01-01", zone="Europe/Berlin", batch=True),
            ("2026-10-24", "2026-10-26"),
            {"2026-10-24": 24, "2026-10-25": 25, "2026-10-26": 24},
        ),
        (
            Daily("at", start="2028-01-01", zone="UTC", batch=True),
            ("2028-02-28", "2028-03-01"),
            {"2028-02-28": 24, "2028-02-29": 24, "2028-03-01": 24},
        ),
        (
            Monthly("day", start="2028-01", batch=True),
            ("2028-01", "2028-04"),
            {"2028-01": 31 * 24, "2028-02": 29 * 24, "2028-03": 31 * 24, "2028-04": 30 * 24},
        ),
    ],
    ids=["23 hours", "25 hours", "leap day", "month ends"],
)
def test_every_hour_is_in_exactly_one_slice(
    runtime: RuntimeSetup, scope: Any, asked: tuple[str, str], rows: dict[str, int], batch: Any
) -> None:
    first = scope.slice_of(asked[0]).start - timedelta(days=3)
    events, same = hours_of(first, (scope.slice_of(asked[1]).end - first) // timedelta(hours=1) + 72)
    runtime.put(TableName("shop.events"), events)
    inputs = {"events": read("shop.events", by=scope.column)}
    runtime.declare(task("shop.revenue", scope=scope, inputs=inputs, write=replace_rows(), name="revenue")(same))
    record, events_ = carry_out(runtime, BackfillRequest("revenue", *asked, batch=batch))
    assert record.complete, events_
    assert {run.label: run.rows for run in runtime.ledger.runs("revenue")} == rows
    assert len({row[0] for row in runtime.revenue}) == len(runtime.revenue) == sum(rows.values())


def test_lookback_adds_nothing_to_a_backfill(filled: RuntimeSetup) -> None:
    """Its plan names every slice; a run looks back because its caller names one."""
    filled.declare(revenue(lookback=3))
    plan = plan_backfill(filled.context, replace(request(10), first="2026-01-06"))
    assert labels(plan) == [["06"], ["07"], ["08"], ["09"], ["10"]]


@pytest.mark.parametrize(
    ("batch", "write", "why"),
    [
        (False, None, "revenue has no batch=True on its scope"),
        (True, append_once(), "append_once() publishes slices one by one"),
    ],
)
def test_a_task_that_cannot_be_batched_falls_back_and_says_so(
    filled: RuntimeSetup, batch: bool, write: Any, why: str
) -> None:
    filled.declare(revenue(batch=batch, write=write))
    plan = plan_backfill(filled.context, request(3, batch=3))
    assert (labels(plan), plan.notes) == ([["01"], ["02"], ["03"]], (f"one slice per commit: {why}",))


def test_auto_takes_many_small_slices_together(filled: RuntimeSetup) -> None:
    assert [len(batch) for batch in labels(plan_backfill(filled.context, request(40, batch="auto")))] == [40]


@pytest.mark.parametrize(
    ("scope", "fix"),
    [
        (Whole(), "twice restate revenue"),
        (Since("order_date", initial="2026-01-01"), "twice mark reset revenue"),
    ],
)
def test_a_task_without_slices_has_nothing_to_backfill(filled: RuntimeSetup, scope: Any, fix: str) -> None:
    by = "order_date" if isinstance(scope, Since) else None
    write = append_once() if isinstance(scope, Since) else replace_rows()
    inputs = {"orders": read("shop.orders", by=by)}
    filled.declare(task("shop.revenue", scope=scope, inputs=inputs, write=write, name="revenue")(summed))
    with pytest.raises(UsageError, match=fix):
        plan_backfill(filled.context, request(3))


def test_a_slice_that_somebody_is_at_work_on_is_waited_for(filled: RuntimeSetup) -> None:
    context = replace(filled.context, lease=timedelta(seconds=2))
    held = filled.ledger.claim(
        ClaimRequest("revenue", ["2026-01-01"], "other", "run", "elsewhere:1"), timedelta(seconds=1)
    )
    assert isinstance(held, Claim)
    record, _ = start(context, request(2))
    assert work(context, record.name, lambda event: None, Stop.never()).complete


def monthly(function: Callable[..., Any] | None = None) -> Task:
    def sums(revenue: Rows) -> Rows:
        totals: dict[date, int] = {}
        for day, amount in revenue.rows:
            totals[day.replace(day=1)] = totals.get(day.replace(day=1), 0) + amount
        return Rows((Column("order_date", "date"), Column("total", "bigint")), tuple(sorted(totals.items())))

    return task(
        "shop.months",
        scope=Monthly("order_date", start="2026-01"),
        inputs={"revenue": read("shop.revenue", by="order_date")},
        write=replace_rows(),
        name="months",
    )(function or sums)


def weekly() -> Task:
    def kept(revenue: Rows) -> Rows:
        return Rows(revenue.columns, revenue.rows[-1:])

    return task(
        "shop.weeks",
        scope=Daily("order_date", start="2026-01-01"),
        inputs={"revenue": read("shop.revenue", by="order_date", before=days(6))},
        write=replace_rows(),
        name="weeks",
    )(kept)


def declare(runtime: RuntimeSetup, *tasks: Task) -> None:
    runtime.context = replace(runtime.context, project=assemble("p", tasks))


def test_downstream_a_day_is_followed_by_its_month_once_all_its_days_are_made(filled: RuntimeSetup) -> None:
    declare(filled, revenue(), monthly())
    plan = plan_backfill(filled.context, request(40, downstream=True, batch=20))
    below = [batch for batch in plan.batches if batch.task == "months"]
    assert [(batch.slices[0].label, batch.needs) for batch in below] == [("2026-01", (1, 2)), ("2026-02", (2,))]
    assert below[0].slices[0].why == "it reads revenue"
    record, events = carry_out(filled, request(40, downstream=True, batch=20))
    assert record.complete
    assert [event.claim.labels[0] for event in events][-2:] == ["2026-01", "2026-02"]
    totals = sorted(filled.target.read(monthly().target).values("total"), reverse=True)
    assert totals == [sum(100 + n for n in range(31)), sum(100 + n for n in range(31, 40))]


def test_downstream_the_days_that_look_back_to_a_restated_day_follow_it(filled: RuntimeSetup) -> None:
    declare(filled, revenue(), weekly())
    carry_out(filled, request(20, batch=20))
    asked = replace(request(3, downstream=True, restate=True, only=ALL), first="2026-01-03")
    plan = plan_backfill(filled.context, asked)
    assert labels(plan) == [["03"], *[[f"{day:02d}"] for day in range(3, 10)]]


def test_downstream_of_a_failed_day_its_month_is_skipped_and_the_retry_makes_both(filled: RuntimeSetup) -> None:
    filled.put_orders(*orders(40, d4=-1))
    declare(filled, revenue(audits=(audit.between("revenue", 0, 10_000),)), monthly())
    record, _ = carry_out(filled, request(10, downstream=True, batch=10))
    assert (record.done, record.failed) == (9, 2)
    filled.put_orders(*orders(40))
    again, events = carry_out(filled, request(10, downstream=True, batch=10))
    assert again.complete
    assert [event.claim.labels[0] for event in events] == ["2026-01-05", "2026-01"]


def test_a_stale_slice_of_the_range_that_is_left_out_is_named_with_what_makes_it_right(filled: RuntimeSetup) -> None:
    declare(filled, revenue())
    carry_out(filled, request(5))
    filled.put_orders(*orders(40, d2=7))
    plan = plan_backfill(filled.context, request(6))
    assert labels(plan) == [["06"]]
    (note,) = plan.notes
    assert note.startswith("stale and not asked for: 2026-01-03 (its input shop.orders changed since version ")
    assert note.endswith("; --only missing,failed,stale computes them too")


def test_downstream_what_is_stale_below_is_in_it_though_its_parent_is_right(filled: RuntimeSetup) -> None:
    """The parent was made again by itself; the days below still hold the old rows."""
    declare(filled, revenue(), weekly())
    carry_out(filled, request(9, batch=9, downstream=True))
    filled.put_orders(*orders(40, d2=7))
    carry_out(filled, replace(request(9, batch=9, only=("stale",)), first="2026-01-01"))
    plan = plan_backfill(filled.context, request(5, downstream=True, only=("stale",)))
    assert [(batch.task, batch.slices[0].label[-2:]) for batch in plan.batches] == [
        ("weeks", f"{day:02d}") for day in range(3, 10)
    ]
    assert {batch.slices[0].status for batch in plan.batches} == {"stale"}


def test_downstream_of_a_zone_only_the_days_that_read_the_day_are_made(filled: RuntimeSetup) -> None:
    """By the date of New York: a day of it is no two days of UTC."""
    zoned = task(
        "shop.rides",
        scope=Daily("pickup_at", start="2026-01-01", zone="America/New_York"),
        inputs={"orders": read("shop.orders", by="order_date")},
        write=replace_rows(),
        name="rides",
    )(lambda orders: Rows((Column("pickup_at", "timestamp"), Column("n", "bigint")), ()))
    below = task(
        "shop.by_date",
        scope=Daily("local_day", start="2026-01-01"),
        inputs={"rides": read("shop.rides", by="local_day")},
        write=replace_rows(),
        name="by_date",
    )(lambda rides: rides)
    declare(filled, zoned, below)
    plan = plan_backfill(filled.context, replace(request(3, downstream=True), task="rides"))
    assert [(batch.task, [each.label[-2:] for each in batch.slices]) for batch in plan.batches] == [
        *(("rides", [day]) for day in ("01", "02", "03")),
        *(("by_date", [day]) for day in ("01", "02", "03")),
    ]


def test_an_incremental_reader_is_named_and_left_to_itself(filled: RuntimeSetup) -> None:
    follower = task(
        "shop.copy",
        scope=Since("order_date", initial="2026-01-01"),
        inputs={"revenue": read("shop.revenue", by="order_date")},
        write=append_once(),
        name="copy",
    )(lambda revenue: revenue)
    declare(filled, revenue(), follower)
    plan = plan_backfill(filled.context, request(3, downstream=True))
    assert plan.notes == ("copy is incremental and is not part of it: it continues from its mark by itself",)


def test_a_ledger_out_of_order_in_this_process_stops_the_worker_and_spoils_no_slice(filled: RuntimeSetup) -> None:
    def broken(orders: Rows) -> Rows:
        raise EnvironmentProblem("the JVM is gone")

    record, _ = start(filled.context, request(3))
    filled.declare(revenue(broken))
    with pytest.raises(EnvironmentProblem):
        go_on(filled, record.name)
    after = filled.ledger.backfills.record(record.name)
    assert after is not None and after.slices == {BatchState.PENDING: 3}


def test_an_interrupt_gives_the_batch_back(filled: RuntimeSetup) -> None:
    def interrupted(orders: Rows) -> Rows:
        raise KeyboardInterrupt

    record, _ = start(filled.context, request(3))
    filled.declare(revenue(interrupted))
    with pytest.raises(KeyboardInterrupt):
        go_on(filled, record.name)
    after = filled.ledger.backfills.record(record.name)
    assert after is not None and after.slices == {BatchState.PENDING: 3}
    filled.declare(revenue())
    assert go_on(filled, record.name)[0].complete


@pytest.mark.parametrize(("silent", "slices"), [(True, []), (False, ["2026-01-01", "2026-01-02"])])
def test_a_backfill_sends_no_effects_unless_it_is_asked_to(
    filled: RuntimeSetup, silent: bool, slices: list[str]
) -> None:
    received: list[str] = []
    effect = call(lambda result, key: received.append(result.slice), keyed=True, name="announce")
    filled.declare(replace(revenue(), effects=(effect,)))
    filled.context = replace(filled.context, senders={"call": CallSender()})
    record, _ = carry_out(filled, request(2, batch=2, silent=silent))
    assert record.complete
    assert sorted(received) == slices, "effects are sent side by side"


@pytest.fixture
def killed_at_the_end(runtime: RuntimeSetup) -> tuple[RuntimeSetup, str]:
    """The last batch is done, and the process ended before it could say that the backfill is."""
    runtime.put_orders(*orders(3))
    runtime.declare(revenue())
    record, _ = start(runtime.context, request(3))

    def report(event: Event) -> None:
        if runtime.ledger.backfills.record(record.name).open == 0:  # type: ignore[union-attr]
            raise Crash

    with pytest.raises(Crash):
        work(runtime.context, record.name, report, Stop.never())
    return runtime, record.name


def test_a_backfill_whose_last_worker_was_killed_at_its_end_is_finished_by_recover(
    killed_at_the_end: tuple[RuntimeSetup, str],
) -> None:
    runtime, name = killed_at_the_end
    runtime.put_orders(*orders(5))
    other, _ = start(runtime.context, request(5))
    recover(runtime.context, None)
    states = {record.name: record.state for record in runtime.ledger.backfills.records()}
    assert states == {name: BackfillState.FINISHED, other.name: BackfillState.RUNNING}


def test_and_is_pruned_when_it_is_old(killed_at_the_end: tuple[RuntimeSetup, str]) -> None:
    runtime, _ = killed_at_the_end
    runtime.clock.ahead = timedelta(days=100)
    assert prune(runtime.context, None, timedelta(days=90)).ledger.backfills == 1
    assert runtime.ledger.backfills.records() == ()


def test_of_a_restatement_that_is_done_and_old_only_the_name_stays(filled: RuntimeSetup) -> None:
    runtime = filled
    request = BackfillRequest("revenue", "2026-01-01", "2026-01-03", only=ALL, restate=True)
    start(runtime.context, request, "january")
    work(runtime.context, "january", lambda _: None, Stop.never())
    before = runtime.ledger.runs("revenue")
    runtime.clock.ahead = timedelta(days=100)
    assert prune(runtime.context, None, timedelta(days=90)).ledger.backfills == 1
    assert runtime.ledger.backfills.batches("january") == ()
    record, plan = start(runtime.context, request, "january")
    assert (record.state, plan) == (BackfillState.FINISHED, None)
    work(runtime.context, "january", lambda _: None, Stop.never())
    assert [run.generation for run in runtime.ledger.runs("revenue")] == [run.generation for run in before]
    assert prune(runtime.context, None, timedelta(days=90)).ledger.backfills == 0


def test_one_that_is_paused_with_nothing_left_stays_paused(killed_at_the_end: tuple[RuntimeSetup, str]) -> None:
    runtime, name = killed_at_the_end
    pause(runtime.ledger, name)
    recover(runtime.context, None)
    assert [record.state for record in runtime.ledger.backfills.records()] == [BackfillState.PAUSED]


def test_only_a_backfill_without_a_batch_ends_where_it_begins(filled: RuntimeSetup) -> None:
    record, _ = start(filled.context, request(3))
    assert ended_at_once(filled.ledger, record.name) is None
    carry_out(filled, request(3))
    nothing, plan = start(filled.context, request(3))
    assert (plan is not None and plan.batches, nothing.state) == ((), BackfillState.RUNNING)
    ended = ended_at_once(filled.ledger, nothing.name)
    assert ended is not None
    assert ended.state is BackfillState.FINISHED
