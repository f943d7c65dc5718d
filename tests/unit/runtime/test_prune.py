"""What is old goes, and no run is decided otherwise for that."""

from __future__ import annotations

from datetime import timedelta

import pytest

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.results.run import Outcome
from twice.errors import UsageError
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.upkeep.prune import prune

from .conftest import Bench, revenue_task

DAYS = timedelta(days=90)


def test_a_pruned_slice_is_still_published_and_not_stale(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    for _ in range(5):
        bench.clock.ahead += timedelta(days=30)
        assert bench.run(declared).outcome is Outcome.ALREADY
    slices = (declared.scope.slice_of("2026-06-09"),)  # type: ignore[union-attr]
    before = slice_statuses(bench.context, declared, slices, None)
    gone = prune(bench.context, None, DAYS)
    assert (gone.ledger.attempts, gone.commits) == (1, 0)  # the first look at a generation fixed the next one: kept
    assert slice_statuses(bench.context, declared, slices, None) == before
    assert bench.run(declared).outcome is Outcome.ALREADY
    assert bench.run(declared, kind="restate").outcome is Outcome.IDENTICAL


def test_an_attempt_that_landed_without_reporting_back_is_recorded_before_anything_goes(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        bench.run(declared)
    bench.clock.ahead += 2 * DAYS
    assert prune(bench.context, None, DAYS).ledger.attempts == 0
    run = bench.ledger.run("revenue", "2026-06-09")
    assert run is not None and (run.generation, run.rows) == (1, 1)


def test_what_may_still_be_at_work_is_not_pruned(bench: Bench) -> None:
    with pytest.raises(UsageError, match="younger than a day"):
        prune(bench.context, None, timedelta(hours=23))
