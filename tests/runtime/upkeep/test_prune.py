"""What is old goes, and no run is decided otherwise for that."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.runtime.conftest import RuntimeSetup, revenue_task

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.results.run import Outcome
from twice.errors import UsageError
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.prune import prune

DAYS = timedelta(days=90)


def test_a_pruned_slice_is_still_published_and_not_stale(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    for _ in range(5):
        runtime.clock.ahead += timedelta(days=30)
        assert runtime.run(declared).outcome is Outcome.ALREADY
    slices = (declared.scope.slice_of("2026-06-09"),)  # type: ignore[union-attr]
    before = slice_statuses(runtime.context, declared, slices, None)
    gone = prune(runtime.context, None, DAYS)
    assert (gone.ledger.attempts, gone.commits) == (1, 0)  # the first look at a generation fixed the next one: kept
    assert slice_statuses(runtime.context, declared, slices, None) == before
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert runtime.run(declared, kind="restate").outcome is Outcome.IDENTICAL


def test_an_attempt_that_landed_without_reporting_back_is_recorded_before_anything_goes(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        runtime.run(declared)
    runtime.clock.ahead += 2 * DAYS
    assert prune(runtime.context, None, DAYS).ledger.attempts == 0
    run = runtime.ledger.run("revenue", "2026-06-09")
    assert run is not None and (run.generation, run.rows) == (1, 1)


def test_what_may_still_be_at_work_is_not_pruned(runtime: RuntimeSetup) -> None:
    with pytest.raises(UsageError, match="younger than a day"):
        prune(runtime.context, None, timedelta(hours=23))
