"""recover asks the tables about everything that the ledger holds, whatever is declared by now, and goes on with the
rest where one of them does not answer.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from twice import call
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ledger.record import AttemptState
from twice.core.task import Task
from twice.runtime.table.garbage import collect_garbage
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

from .conftest import Bench, revenue_task


def telling(bench: Bench, told: list[str]) -> Task:
    bench.context = replace(bench.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    effect = call(lambda result, key: told.append(result.slice), keyed=False, name="tell")
    return bench.declare(replace(revenue_task(), effects=(effect,)))


def killed(bench: Bench, declared: Task, point: Point) -> None:
    """And its lease runs out."""
    with pytest.raises(Crash), armed(crash_at(point)):
        bench.run(declared)
    bench.clock.ahead += timedelta(hours=1)


def begin_later(bench: Bench, declared: Task) -> Task:
    return bench.declare(replace(declared, scope=replace(declared.scope, start="2026-06-10")))  # type: ignore[call-arg]


def test_what_landed_on_a_slice_that_the_task_has_no_more_is_recorded_and_its_effect_goes(bench: Bench) -> None:
    told: list[str] = []
    declared = telling(bench, told)
    killed(bench, declared, Point.AFTER_PUBLISH)
    begin_later(bench, declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.PUBLISHED]
    assert told == ["2026-06-09"]


def test_what_was_given_up_and_landed_on_such_a_slice_is_found_by_the_next_recover(bench: Bench) -> None:
    told: list[str] = []
    declared = telling(bench, told)
    with armed(lambda point: _given_up_at(bench, declared, point)), pytest.raises(Crash):
        bench.run(declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.PUBLISHED]
    assert told == ["2026-06-09"]


def _given_up_at(bench: Bench, declared: Task, point: object) -> None:
    if point is Point.PUBLISHING:
        bench.clock.ahead += timedelta(hours=1)
        begin_later(bench, declared)
        assert [end.state for end in recover(bench.context, None)] == [AttemptState.ABANDONED]
    if point is Point.AFTER_PUBLISH:
        raise Crash


def test_what_did_not_land_on_such_a_slice_is_given_up_and_what_it_staged_goes(bench: Bench) -> None:
    told: list[str] = []
    declared = telling(bench, told)
    killed(bench, declared, Point.AFTER_AUDIT)
    begin_later(bench, declared)
    assert [end.state for end in recover(bench.context, None)] == [AttemptState.ABANDONED]
    (gone,) = collect_garbage(bench.context, None)
    assert (gone.files, len(gone.attempts), gone.kept) == (1, 1, ())
    assert not bench.leftovers and told == [] and collect_garbage(bench.context, None) == ()
