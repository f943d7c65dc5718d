"""A passing failure is tried again by itself; when it does not pass, the slice waits for a person."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pytest
from tests.runtime.conftest import COLUMNS, DAY, REVENUE, RuntimeSetup, revenue_task, summed

from twice import Daily, Outcome, Policy, Retry, Whole, audit, read
from twice import replace as replace_rows
from twice import task as task_of
from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ledger.record import AttemptState, ClaimRequest
from twice.core.ports import Landed
from twice.core.slice import WHOLE
from twice.core.task import Task
from twice.errors import (
    AuditFailed,
    EnvironmentProblem,
    LeaseLost,
    OutcomeUnknown,
    Quarantined,
    RunError,
    SliceBusy,
    TableChanged,
    UserCodeError,
)
from twice.runtime.run.chain import TaskEnd
from twice.runtime.run.explain import explain
from twice.runtime.run.run_many import retry_failed, retry_slices
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.stale import failed_labels
from twice.targets.memory.rows import Rows

SLICE = "2026-06-09"


class Hours:
    """A clock by which everything takes long: each look at it is half an hour later."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        self.at += 1800
        return self.at


class Failing:
    """The job, which fails the first times it is called."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.calls = 0

    def revenue(self, orders: Rows) -> Rows:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return summed(orders)


def declared(runtime: RuntimeSetup, job: Failing, retry: Retry | None = None) -> Task:
    return runtime.declare(revenue_task(job.revenue, policy=Policy(retry=retry or Retry(attempts=3))))


def cut() -> ConnectionResetError:
    """Something is away. It comes back."""
    return ConnectionResetError("connection reset by peer")


def lost() -> RuntimeError:
    """It may pass; where it comes each time, it is the slice's own."""
    return RuntimeError("ExecutorLostFailure (executor 3 exited: it was out of memory)")


def test_a_passing_error_is_tried_again_as_a_new_attempt(runtime: RuntimeSetup) -> None:
    result = runtime.run(declared(runtime, Failing(cut(), cut())))
    assert result.outcome is Outcome.PUBLISHED
    assert runtime.revenue == [(DAY, 15)]
    attempts = runtime.ledger.attempts("revenue")[::-1]
    assert [attempt.state.value for attempt in attempts] == ["failed", "failed", "published"]
    assert [attempt.fence for attempt in attempts] == [1, 2, 3]
    assert len({attempt.id for attempt in attempts}) == 3


def test_each_wait_is_in_the_ledger_with_its_reason(runtime: RuntimeSetup) -> None:
    runtime.run(declared(runtime, Failing(cut(), cut())))
    # Three quarters of 5 s and of 10 s: the draw of these tests is 0.5.
    assert runtime.pauses == [3.75, 7.5]
    first, second, last = runtime.ledger.attempts("revenue")[::-1]
    why = "failed, transient (ConnectionError)"
    assert first.notes == (f"attempt 1 of 3 {why}; tried again after 3.8 s",)
    assert second.notes == (f"attempt 2 of 3 {why}; tried again after 7.5 s",)
    assert last.retry_at is None
    assert first.retry_at is not None and first.finished is not None
    assert timedelta(seconds=3.7) < first.retry_at - first.finished < timedelta(seconds=12)


def test_nothing_is_held_while_it_waits(runtime: RuntimeSetup) -> None:
    job = Failing(cut())
    task = declared(runtime, job)
    during: list[Any] = []

    def somebody_else_runs(seconds: float) -> None:
        during.append(runtime.ledger.open_attempts())
        during.append(runtime.run(task).outcome)

    context = runtime.context
    runtime.context = replace(runtime.context, pause=somebody_else_runs)
    assert runtime.run(task).outcome is Outcome.ALREADY
    assert during == [(), Outcome.PUBLISHED]
    assert runtime.version == 1
    runtime.context = context


def test_an_outage_that_outlasts_every_retry_is_left_to_the_next_run(runtime: RuntimeSetup) -> None:
    job = Failing(cut(), cut(), cut())
    task = declared(runtime, job)
    with pytest.raises(UserCodeError) as caught:
        runtime.run(task)
    assert re.search(r"\(It was tried 3 times in \d+ s; the next run tries again.\)$", caught.value.fix)
    assert runtime.ledger.quarantined("revenue") == {}
    assert runtime.run(task).outcome is Outcome.PUBLISHED, "an orchestrator that tries again is not locked out"


def test_the_time_a_task_takes_does_not_use_up_its_retries(runtime: RuntimeSetup) -> None:
    job = Failing(cut())
    runtime.context = replace(runtime.context, clock=Hours())
    task = declared(runtime, job, Retry(attempts=2, total=timedelta(minutes=10)))
    assert runtime.run(task).outcome is Outcome.PUBLISHED
    assert (job.calls, len(runtime.pauses)) == (2, 1)


def test_after_the_last_attempt_the_slice_is_quarantined(runtime: RuntimeSetup) -> None:
    job = Failing(lost(), lost(), lost())
    task = declared(runtime, job)
    with pytest.raises(Quarantined) as caught:
        runtime.run(task)
    line = Failing.revenue.__code__.co_firstlineno + 3
    assert re.sub(r"within \d+ s", "within 0 s", str(caught.value)) == (
        "revenue[2026-06-09]: 3 attempts within 0 s failed; the last: the task's own code raised "
        f"RuntimeError: ExecutorLostFailure (executor 3 exited: it was out of memory) (test_retry.py:{line}). "
        "The table is unchanged. The slice is "
        "quarantined. See twice history revenue --date 2026-06-09; when the cause is gone: "
        "twice retry revenue --date 2026-06-09."
    )
    assert isinstance(caught.value.__cause__, UserCodeError)
    assert caught.value.exit_code == 5
    known = runtime.ledger.run("revenue", SLICE)
    assert known is not None and known.quarantined is not None
    assert runtime.ledger.attempts("revenue")[0].notes[-1].endswith("; quarantined")
    assert runtime.ledger.attempts("revenue")[0].retry_at is None


def test_a_run_refuses_a_quarantined_slice_and_tries_nothing(runtime: RuntimeSetup) -> None:
    job = Failing(lost(), lost(), lost())
    task = declared(runtime, job)
    with pytest.raises(Quarantined):
        runtime.run(task)
    with pytest.raises(Quarantined) as refused:
        runtime.run(task)
    assert re.sub(r"since 20[0-9: -]+ UTC", "since THEN UTC", str(refused.value)) == (
        "revenue[2026-06-09]: the slice has been quarantined since THEN UTC: every retry failed, and the cause was not "
        "an outage. It was not run, and its rows in the table are unchanged. See twice history revenue --date "
        "2026-06-09; when the cause is gone: twice retry revenue --date 2026-06-09."
    )
    assert job.calls == 3
    assert len(runtime.ledger.attempts("revenue")) == 3
    assert runtime.run(task, "2026-06-10").outcome is Outcome.PUBLISHED  # other slices are free


def test_a_plan_says_that_a_run_would_refuse_it(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing(lost(), lost(), lost()))
    slice_ = task.scope.slice_of(SLICE)  # type: ignore[union-attr]
    with pytest.raises(Quarantined):
        runtime.run(task)
    assert explain(runtime.context, task, slice_).quarantined
    retry_slices(runtime.context, task, (slice_,), None)
    assert not explain(runtime.context, task, slice_).quarantined


def test_a_persons_retry_lifts_the_quarantine(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing(lost(), lost(), lost()))
    with pytest.raises(Quarantined):
        runtime.run(task)
    assert failed_labels(runtime.ledger, "revenue") == (SLICE,)
    assert [r.outcome for r in retry_slices(runtime.context, task, (task.scope.slice_of(SLICE),), None)] == [  # type: ignore[union-attr]
        Outcome.PUBLISHED
    ]
    assert failed_labels(runtime.ledger, "revenue") == ()
    assert runtime.ledger.quarantined("revenue") == {}
    assert runtime.run(task).outcome is Outcome.ALREADY


def test_who_restates_says_so_in_person_and_a_publish_lifts_it(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing(lost(), lost(), lost()))
    with pytest.raises(Quarantined):
        runtime.run(task)
    assert runtime.run(task, kind="restate").outcome is Outcome.PUBLISHED
    assert runtime.run(task).outcome is Outcome.ALREADY


@pytest.mark.parametrize(
    ("failure", "error"),
    [(KeyError("EUR"), UserCodeError), (ValueError("no rate"), UserCodeError), (MemoryError(), UserCodeError)],
)
def test_a_permanent_error_fails_at_once_and_may_be_run_again(runtime: RuntimeSetup, failure: Any, error: Any) -> None:
    job = Failing(failure)
    task = declared(runtime, job)
    with pytest.raises(error):
        runtime.run(task)
    assert (job.calls, runtime.pauses) == (1, [])
    assert runtime.run(task).outcome is Outcome.PUBLISHED


def test_a_failed_audit_is_never_tried_again(runtime: RuntimeSetup) -> None:
    job = Failing()
    policy = Policy(retry=Retry(transient=[Exception]))
    with pytest.raises(AuditFailed):
        runtime.run(runtime.declare(revenue_task(job.revenue, audits=(audit.rows(at_most=0),), policy=policy)))
    assert (job.calls, runtime.pauses) == (1, [])


def test_a_task_says_what_it_knows_better(runtime: RuntimeSetup) -> None:
    assert runtime.run(declared(runtime, Failing(KeyError("EUR")), Retry(transient=[KeyError]))).outcome
    task = declared(runtime, Failing(cut()), Retry(permanent=["ConnectionResetError"]))
    with pytest.raises(UserCodeError):
        runtime.run(task, "2026-06-10")


def test_an_interrupt_is_never_tried_again_and_stays_an_interrupt(runtime: RuntimeSetup) -> None:
    job = Failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        runtime.run(declared(runtime, job, Retry(transient=[BaseException])))
    assert (job.calls, runtime.pauses) == (1, [])
    attempt = runtime.ledger.attempts("revenue")[0]
    assert attempt.state is AttemptState.FAILED
    assert attempt.error is not None and attempt.error["what"] == "interrupted"


def test_an_interrupt_while_it_waits_ends_the_run_with_nothing_held(runtime: RuntimeSetup) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    task = declared(runtime, Failing(cut()))
    context, runtime.context = runtime.context, replace(runtime.context, pause=interrupted)
    with pytest.raises(KeyboardInterrupt):
        runtime.run(task)
    assert runtime.ledger.open_attempts() == ()
    runtime.context = context
    assert runtime.run(task).outcome is Outcome.PUBLISHED


def test_a_busy_slice_is_not_tried_again_by_the_policy(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing())
    runtime.ledger.claim(ClaimRequest("revenue", [SLICE], "x", "run", "far"), timedelta(hours=1))
    with pytest.raises(SliceBusy):
        runtime.run(task)
    assert runtime.pauses == []


def test_no_attempt_begins_after_the_total_time(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing(lost(), lost()), Retry(attempts=9, total=timedelta(seconds=2)))
    with pytest.raises(Quarantined, match="1 attempt within"):
        runtime.run(task)
    assert runtime.pauses == []


def test_who_leaves_retries_to_the_scheduler_is_neither_retried_nor_quarantined(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing(cut(), cut(), cut(), cut()), Retry(attempts=1))
    for _ in range(4):
        with pytest.raises(UserCodeError):
            runtime.run(task)
    assert runtime.run(task).outcome is Outcome.PUBLISHED


def test_a_lost_reply_is_tried_again_by_looking_never_by_committing_blind(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, commits = runtime.target.commit, []

    def lands_then_breaks(*args: Any) -> Landed:
        commits.append(commit(*args))
        raise OutcomeUnknown("the commit's reply was lost", now="The table may hold the rows.")

    task = declared(runtime, Failing())
    monkeypatch.setattr(runtime.target, "commit", lands_then_breaks)
    result = runtime.run(task)
    assert result.outcome is Outcome.ALREADY
    assert (len(commits), runtime.version) == (1, 1)
    states = [attempt.state.value for attempt in runtime.ledger.attempts("revenue")]
    assert states == ["unchanged", "published"]  # the retry's look has settled the first


def test_an_outcome_that_stays_unknown_is_left_to_a_later_look_which_settles_it(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = runtime.target.commit
    task = declared(runtime, Failing())

    def breaks(*args: Any) -> Landed:
        raise OutcomeUnknown("the target cannot be read", now="The table may hold the rows.")

    monkeypatch.setattr(runtime.target, "commit", breaks)
    with pytest.raises(
        OutcomeUnknown, match=r"the target cannot be read. The table may already hold these rows. .It was tried 3"
    ):
        runtime.run(task)
    assert [a.state for a in runtime.ledger.attempts("revenue")] == [AttemptState.PUBLISHING] * 3
    monkeypatch.setattr(runtime.target, "commit", commit)
    assert runtime.run(task).outcome is Outcome.PUBLISHED
    assert runtime.ledger.open_attempts() == ()
    assert runtime.revenue == [(DAY, 15)]


def test_an_attempt_whose_end_the_ledger_did_not_hear_does_not_keep_its_own_retry_out(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = EnvironmentProblem("the ledger's server is away")
    away.__cause__ = cut()
    deaf = [True, True]

    def sometimes(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if deaf and deaf.pop():
                raise away
            return method(*args)

        return call

    ledger = runtime.ledger
    monkeypatch.setattr(ledger, "close_attempt", sometimes(ledger.close_attempt))
    monkeypatch.setattr(ledger, "postpone", sometimes(ledger.postpone))
    assert runtime.run(declared(runtime, Failing(cut()))).outcome is Outcome.PUBLISHED


def test_an_error_that_no_ledger_can_record_stays_what_it_is(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = EnvironmentProblem("the ledger's server is away")
    away.__cause__ = cut()

    def gone(*args: Any, **kwargs: Any) -> Any:
        raise away

    monkeypatch.setattr(runtime.ledger, "claim", gone)
    with pytest.raises(EnvironmentProblem, match="is away"):
        runtime.run(declared(runtime, Failing()))
    assert len(runtime.pauses) == 2
    assert runtime.ledger.quarantined("revenue") == {}


def test_a_quarantine_does_not_hit_a_slice_that_another_attempt_has_taken_up(runtime: RuntimeSetup) -> None:
    task = declared(runtime, Failing(lost()), Retry(attempts=2, first=timedelta(0)))

    def lose_to_another(point: Point | SendPoint) -> None:
        if point is Point.AFTER_LOOK and len(runtime.ledger.attempts("revenue")) == 2:
            mine = runtime.ledger.attempts("revenue")[0].id
            runtime.ledger.release(mine)
            runtime.ledger.claim(ClaimRequest("revenue", [SLICE], "other", "run", "far"), timedelta(hours=1))
            raise lost()

    with armed(lose_to_another), pytest.raises(RunError) as caught:
        runtime.run(task)
    assert not isinstance(caught.value, (Quarantined, LeaseLost))
    assert runtime.ledger.quarantined("revenue") == {}


def test_failed_are_also_those_whose_process_died(runtime: RuntimeSetup) -> None:
    runtime.ledger.claim(ClaimRequest("revenue", [SLICE], "dead", "run", "far"), timedelta(minutes=5))
    assert failed_labels(runtime.ledger, "revenue") == ()
    runtime.clock.ahead += timedelta(minutes=6)
    assert failed_labels(runtime.ledger, "revenue") == (SLICE,)


def test_a_table_that_others_keep_changing_quarantines_no_slice(runtime: RuntimeSetup) -> None:
    """The task reads the table that it writes."""
    runtime.put(REVENUE, summed(Rows(COLUMNS, ())))
    inputs = {"orders": read("shop.orders"), "mine": read("shop.revenue")}
    declare = task_of("shop.revenue", scope=Whole(), inputs=inputs, write=replace_rows(), name="revenue")
    three = Policy(retry=Retry(attempts=3))
    reading_itself = runtime.declare(replace(declare(lambda orders, mine: summed(orders)), policy=three))

    def change(point: object) -> None:
        if point is Point.PUBLISHING:
            runtime.put(REVENUE, Rows(runtime.target.read(REVENUE).columns, ()))

    with armed(change), pytest.raises(TableChanged, match="the table changed after this task read it") as caught:
        run_task(runtime.context, reading_itself, (WHOLE,))
    assert "(It was tried 3 times in " in str(caught.value)
    assert runtime.ledger.quarantined("revenue") == {}
    assert run_task(runtime.context, reading_itself, (WHOLE,)).outcome is Outcome.PUBLISHED


def begins(runtime: RuntimeSetup, start: str, function: Callable[..., Any]) -> Task:
    declared = revenue_task(function)
    return runtime.declare(replace(declared, scope=replace(cast(Daily, declared.scope), start=start)))


def refused(orders: Rows) -> Rows:
    raise ValueError("no")


def test_a_failed_slice_before_a_later_start_keeps_no_other_from_being_tried_again(runtime: RuntimeSetup) -> None:
    failing = begins(runtime, "2026-01-01", refused)
    for day in ("2026-06-08", "2026-06-09"):
        with pytest.raises(UserCodeError):
            runtime.run(failing, day)
    begins(runtime, "2026-06-09", summed)
    (end,) = retry_failed(runtime.context, ["revenue"], None)
    assert (end.error, end.left_out) == (None, None)
    assert [(run.outcome, run.slices[0].label) for run in end.results] == [(Outcome.PUBLISHED, "2026-06-09")]
    assert end.results[0].notes == ("not everything that failed was tried: the task's scope no longer has 2026-06-08",)
    reported: list[TaskEnd] = []
    (rest,) = retry_failed(runtime.context, ["revenue"], None, reported.append)
    assert (rest.results, rest.error, rest.left_out) == ((), None, "the task's scope no longer has 2026-06-08")
    assert reported == [rest]
