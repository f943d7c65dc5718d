"""A worker that was silent beyond its lease wakes up: it may move on from what its plan saw, from nothing later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup, summed
from tests.runtime.starting import start

from twice import Daily, Policy, read, task
from twice import replace as replace_rows
from twice.core.backfill.plan import BackfillRequest, StatusChoice
from twice.core.backfill.result import BackfillRecord
from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ports import Landed, Leaf, Lost, Staged
from twice.core.results.run import Outcome, RunRequest
from twice.core.table.token import CommitNote, Intention
from twice.core.task import Task
from twice.engine.plain import PlainEngine
from twice.errors import OutcomeUnknown
from twice.runtime.backfill.worker import Event, Stop, work
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.decide import SliceState
from twice.runtime.staleness.published_since import published_since
from twice.targets.memory.rows import Rows

FIRST = date(2026, 1, 1)
EVERY: tuple[StatusChoice, ...] = ("missing", "failed", "stale", "published")


def revenue(policy: Policy | None = None) -> Task:
    return task(
        "shop.revenue",
        scope=Daily("order_date", start="2026-01-01", batch=True),
        inputs={"orders": read("shop.orders", by="order_date")},
        write=replace_rows(),
        policy=policy,
        name="revenue",
    )(summed)


def days(count: int, batch: Any = "off", restate: bool = True) -> BackfillRequest:
    last = (FIRST + timedelta(days=count - 1)).isoformat()
    only = EVERY if restate else ("missing", "failed")
    return BackfillRequest("revenue", "2026-01-01", last, only=only, batch=batch, restate=restate)


@pytest.fixture
def filled(runtime: RuntimeSetup) -> RuntimeSetup:
    runtime.put_orders(*((n, FIRST + timedelta(days=n), 100 + n) for n in range(10)))
    runtime.declare(revenue())
    return runtime


def carry_out(runtime: RuntimeSetup, name: str) -> tuple[BackfillRecord, list[Event]]:
    events: list[Event] = []
    return work(runtime.context, name, events.append, Stop.never()), events


def generations(runtime: RuntimeSetup) -> Mapping[str, int]:
    apps = {f"twice/p/revenue/{run.label}": run.label[-2:] for run in runtime.ledger.runs("revenue")}
    found = runtime.target.published(revenue().target, tuple(apps)).generations
    return {apps[app]: generation for app, generation in found.items()}


def codes(runtime: RuntimeSetup) -> Mapping[str, str]:
    """Which code made what is published."""
    return {run.label[-2:]: run.intention.code for run in runtime.ledger.runs("revenue") if run.intention}


def restated_by(runtime: RuntimeSetup, code: str, day: str) -> None:
    other = replace(runtime.context, code_hash=lambda declared: code)
    run_task(other, revenue(), (revenue().scope.slice_of(day),), RunRequest("restate"))  # type: ignore[union-attr]


def asleep_at(point: Point, runtime: RuntimeSetup, meanwhile: Callable[[], Any]) -> Any:
    """The first to pass the point sleeps there beyond every lease, while something else happens."""
    slept: list[Point] = []

    def act(passed: Point | SendPoint) -> None:
        if passed is point and not slept:
            slept.append(point)
            runtime.clock.ahead += timedelta(hours=1)
            meanwhile()

    return armed(act)


@pytest.mark.parametrize("batch", ["off", 3])
def test_a_worker_that_slept_before_its_claim_does_not_restate_a_second_time(filled: RuntimeSetup, batch: Any) -> None:
    carry_out(filled, start(filled.context, days(3, restate=False))[0].name)
    record, _ = start(filled.context, days(3, batch))
    with asleep_at(Point.AFTER_PLAN, filled, lambda: carry_out(filled, record.name)):
        done, events = carry_out(filled, record.name)
    assert done.complete
    assert generations(filled) == {"01": 2, "02": 2, "03": 2}
    assert next(end.outcome for event in events for end in event.ends) == Outcome.ALREADY.value


@pytest.mark.parametrize("point", [Point.AFTER_LOOK, Point.AFTER_STAGE, Point.AFTER_AUDIT])
def test_one_that_slept_later_loses_its_batch_and_calls_nothing_failed(filled: RuntimeSetup, point: Point) -> None:
    carry_out(filled, start(filled.context, days(2, restate=False))[0].name)
    record, _ = start(filled.context, days(2))
    with asleep_at(point, filled, lambda: carry_out(filled, record.name)):
        done, events = carry_out(filled, record.name)
    assert done.complete
    assert generations(filled) == {"01": 2, "02": 2}
    assert "failed" not in [event.kind for event in events], "the other worker made it right"


def test_of_a_batch_only_the_slice_that_somebody_made_since_is_left_out(filled: RuntimeSetup) -> None:
    """A person restated the second day while the batch of three was about to be claimed."""
    carry_out(filled, start(filled.context, days(3, restate=False))[0].name)
    record, _ = start(filled.context, days(3, batch=3))
    again = lambda: filled.run(revenue(), "2026-01-02", "restate")  # noqa: E731
    with asleep_at(Point.AFTER_PLAN, filled, again):
        done, events = carry_out(filled, record.name)
    assert done.complete
    assert generations(filled) == {"01": 2, "02": 2, "03": 2}
    ends = {end.label[-2:]: end.outcome for event in events for end in event.ends}
    assert ends == {"01": "identical", "02": "already published", "03": "identical"}


def test_of_a_batch_that_lost_the_race_for_one_slice_the_others_are_restated_all_the_same(filled: RuntimeSetup) -> None:
    """Lost with the same intention is no restatement of the slices that nobody moved."""
    carry_out(filled, start(filled.context, days(3, restate=False))[0].name)
    record, _ = start(filled.context, days(3, batch=3))
    again = lambda: filled.run(revenue(), "2026-01-02", "restate")  # noqa: E731
    with asleep_at(Point.PUBLISHING, filled, again):
        done, _ = carry_out(filled, record.name)
    assert done.complete
    assert generations(filled) == {"01": 2, "02": 2, "03": 2}


def test_a_restatement_that_somebody_was_faster_with_says_what_was_published_and_that_nothing_was_done() -> None:
    state = SliceState("2026-06-09", 4, Intention("code", None), Intention("code", None))
    assert published_since("restate", ["2026-06-09"], [state]) == (
        "nothing done: 2026-06-09 was published (generation 4) after this run was planned"
    )


@pytest.mark.parametrize("published", [None, Intention("other code", None)])
def test_a_restatement_goes_on_where_other_code_was_faster_or_nobody_remembers_which(published: Any) -> None:
    state = SliceState("2026-06-09", 4, published, Intention("code", None))
    assert published_since("restate", ["2026-06-09"], [state]) is None


def test_of_a_batch_that_is_told_of_one_slice_made_since_the_one_that_other_code_made_is_restated(
    filled: RuntimeSetup,
) -> None:
    """Both days moved after the worker had asked which had: one by this code, one by an older deployment's."""
    carry_out(filled, start(filled.context, days(3, restate=False))[0].name)
    filled.code[0] = "v2"
    record, _ = start(filled.context, days(3, batch=3))

    def meanwhile() -> None:
        filled.run(revenue(), "2026-01-01", "restate")
        restated_by(filled, "v1", "2026-01-02")

    with asleep_at(Point.AFTER_PLAN, filled, meanwhile):
        done, _ = carry_out(filled, record.name)
    assert done.complete
    assert codes(filled) == {"01": "v2", "02": "v2", "03": "v2"}
    assert generations(filled) == {"01": 2, "02": 3, "03": 2}


class Unversioned(PlainEngine):
    def leaves(self, frame: Rows, before: Any = ()) -> tuple[Leaf, ...]:
        return (Leaf("jdbc", "somewhere", None),)


@pytest.mark.parametrize("policy", [None, Policy(rerun="always")])
def test_a_missing_slice_that_was_made_since_is_not_computed_again_because_nobody_can_compare(
    filled: RuntimeSetup, policy: Policy | None
) -> None:
    filled.declare(revenue(policy))
    if policy is None:
        filled.context = replace(filled.context, engine=Unversioned())
    record, _ = start(filled.context, days(1, restate=False))
    with asleep_at(Point.AFTER_PLAN, filled, lambda: carry_out(filled, record.name)):
        done, _ = carry_out(filled, record.name)
    assert done.complete
    assert generations(filled) == {"01": 1}


def test_one_that_was_made_since_with_other_code_is_computed_again(filled: RuntimeSetup) -> None:
    """Somebody's older deployment ran the slice after the plan was made."""
    record, _ = start(filled.context, days(1, restate=False))

    def older() -> None:
        filled.code[0] = "v0"
        filled.run(revenue(), "2026-01-01")
        filled.code[0] = "v1"

    with asleep_at(Point.AFTER_PLAN, filled, older):
        carry_out(filled, record.name)
    assert generations(filled) == {"01": 2}


class LostReply:
    """The commit lands, and its reply is lost: the first time."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.lost = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        end: Landed | Lost = self._inner.commit(staged, expected, note)
        if not self.lost:
            self.lost += 1
            raise OutcomeUnknown("the reply was lost", where="revenue")
        return end


@pytest.mark.parametrize("kind", ["restate", "run"])
def test_a_run_that_landed_without_a_reply_is_not_published_again_by_its_own_retry(
    filled: RuntimeSetup, kind: Any
) -> None:
    declared = filled.declare(revenue())
    if kind == "restate":
        filled.run(declared, "2026-01-01")
    else:
        filled.context = replace(filled.context, engine=Unversioned())
    target = LostReply(filled.target)
    filled.context = replace(filled.context, target_of=lambda table, session: target)
    result = run_task(filled.context, declared, (declared.scope.slice_of("2026-01-01"),), RunRequest(kind))  # type: ignore[union-attr]
    assert target.lost == 1
    assert generations(filled) == {"01": 2 if kind == "restate" else 1}
    assert result.outcome is Outcome.ALREADY


class LostRequest(LostReply):
    """The commit does not land, and nobody says so: the first time."""

    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        if not self.lost:
            self.lost += 1
            raise OutcomeUnknown("the request was lost", where="revenue")
        end: Landed | Lost = self._inner.commit(staged, expected, note)
        return end


@pytest.mark.parametrize("kind", ["restate", "run"])
def test_what_another_publishes_in_the_pause_of_a_retry_is_not_taken_for_its_own(
    filled: RuntimeSetup, kind: Any
) -> None:
    """Nobody can compare its inputs, and it read them before this run was asked for, as a silent process does."""
    declared = filled.declare(revenue())
    filled.context = plain = replace(filled.context, engine=Unversioned())
    filled.run(declared, "2026-01-01")
    target = LostRequest(filled.target)

    def meanwhile(seconds: float) -> None:
        filled.context = plain
        filled.run(declared, "2026-01-01")
        filled.put_orders((0, FIRST, 777))

    context = replace(plain, target_of=lambda table, session: target, pause=meanwhile)
    result = run_task(context, declared, (declared.scope.slice_of("2026-01-01"),), RunRequest(kind))  # type: ignore[union-attr]
    assert target.lost == 1
    assert result.outcome is (Outcome.PUBLISHED if kind == "run" else Outcome.CHANGED)
    assert filled.revenue == [(FIRST, 777)]
    assert generations(filled) == {"01": 3}


def test_a_slice_of_a_batch_that_was_made_since_and_is_stale_again_is_made_right(filled: RuntimeSetup) -> None:
    """Somebody ran the second day after the plan was made; then late orders came."""
    record, _ = start(filled.context, days(3, batch=3, restate=False))
    filled.run(revenue(), "2026-01-02")
    filled.put_orders(*((n, FIRST + timedelta(days=n), 900 + n) for n in range(10)))
    done, events = carry_out(filled, record.name)
    assert done.complete
    assert [amount for _, amount in filled.revenue] == [900, 901, 902]
    assert generations(filled) == {"01": 1, "02": 2, "03": 1}
    assert {end.outcome for event in events for end in event.ends} == {"published"}


def test_a_slice_of_a_batch_that_was_made_since_and_is_right_is_found_so(filled: RuntimeSetup) -> None:
    record, _ = start(filled.context, days(3, batch=3, restate=False))
    filled.run(revenue(), "2026-01-02")
    _, events = carry_out(filled, record.name)
    assert generations(filled) == {"01": 1, "02": 1, "03": 1}
    ends = {end.label[-2:]: end.outcome for event in events for end in event.ends}
    assert ends == {"01": "published", "02": "already published", "03": "published"}


@pytest.mark.parametrize("batch", ["off", 3])
@pytest.mark.parametrize("point", [None, Point.AFTER_PLAN, Point.AFTER_LOOK])
def test_a_restating_backfill_restates_a_slice_that_other_code_published_meanwhile(
    filled: RuntimeSetup, batch: Any, point: Point | None
) -> None:
    """Somebody's older deployment restated the second day after the plan was made."""
    carry_out(filled, start(filled.context, days(3, restate=False))[0].name)
    filled.code[0] = "v2"
    record, _ = start(filled.context, days(3, batch))

    def older() -> None:
        restated_by(filled, "v1", "2026-01-02")

    if point is None:
        older()
        done, _ = carry_out(filled, record.name)
    else:
        with asleep_at(point, filled, older):
            done, _ = carry_out(filled, record.name)
    assert done.complete
    assert codes(filled) == {"01": "v2", "02": "v2", "03": "v2"}
    assert generations(filled) == {"01": 2, "02": 3, "03": 2}
