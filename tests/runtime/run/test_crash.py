"""Crash anywhere, run again: the same table, one commit per generation, nothing left behind. No JVM here."""

from __future__ import annotations

import threading
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.processes.ended import ended_process
from tests.runtime.conftest import DAY, REVENUE, RuntimeSetup, revenue_task, summed

from twice import Outcome, Policy, Retry
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.ledger.record import AttemptState
from twice.core.ports import Landed, Leaf
from twice.core.results.run import RunResult
from twice.engine.plain import PlainEngine
from twice.errors import OutcomeUnknown, StageLost, Superseded
from twice.ledgers.ledger import Ledger
from twice.runtime.staleness.stale import failed_labels
from twice.runtime.table.garbage import collect_garbage
from twice.runtime.upkeep.recover import recover


def crash(runtime: RuntimeSetup, declared: Any, point: Point, kind: Any = "run") -> None:
    with pytest.raises(Crash), armed(crash_at(point)):
        runtime.run(declared, kind=kind)


def wake_later(runtime: RuntimeSetup) -> None:
    """Time passes; the dead attempt's lease runs out."""
    runtime.clock.ahead += timedelta(hours=1)


@pytest.mark.parametrize("point", Point)
def test_after_a_crash_anywhere_a_plain_rerun_gives_the_clean_table(runtime: RuntimeSetup, point: Point) -> None:
    declared = runtime.declare(revenue_task())
    crash(runtime, declared, point)
    wake_later(runtime)
    result = runtime.run(declared)
    assert result.slices[0].generation == 1
    assert runtime.revenue == [(DAY, 15)]
    assert runtime.version == 1, "one commit per generation"
    landed = point in (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
    assert result.outcome is (Outcome.ALREADY if landed else Outcome.PUBLISHED)
    assert not runtime.leftovers
    run = runtime.ledger.run("revenue", "2026-06-09")
    assert run is not None
    assert (run.generation, run.rows) == (1, 1)
    assert not runtime.ledger.open_attempts()
    assert not runtime.ledger.undiscarded()


@pytest.mark.parametrize("point", Point)
def test_recover_settles_a_crash_and_a_second_recover_finds_nothing(runtime: RuntimeSetup, point: Point) -> None:
    declared = runtime.declare(revenue_task())
    crash(runtime, declared, point)
    wake_later(runtime)
    first = recover(runtime.context, None)
    again = recover(runtime.context, None)
    assert again == ()
    assert not runtime.ledger.open_attempts()
    landed = point in (Point.AFTER_COMMIT, Point.AFTER_PUBLISH)
    quiet = point in (Point.AFTER_PLAN, Point.AFTER_FINISH)
    assert [one.state for one in first] == (
        [] if quiet else [AttemptState.PUBLISHED if landed else AttemptState.ABANDONED]
    )
    runtime.run(declared)
    assert runtime.revenue == [(DAY, 15)]
    assert runtime.version == 1


def test_every_failpoint_is_reached_by_a_run_that_publishes(runtime: RuntimeSetup) -> None:
    reached: list[Point | SendPoint] = []
    with armed(reached.append):
        runtime.run(runtime.declare(revenue_task()))
    assert reached == list(Point)


def test_recover_leaves_a_living_attempt_alone(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    crash(runtime, declared, Point.AFTER_STAGE)
    assert recover(runtime.context, None) == ()
    assert len(runtime.ledger.open_attempts()) == 1


@pytest.fixture
def killed(runtime: RuntimeSetup) -> RuntimeSetup:
    """What this runtime runs belongs to a process of this machine that has ended."""
    runtime.context = replace(runtime.context, holder=ended_process())
    return runtime


@pytest.mark.parametrize("point", [Point.AFTER_CLAIM, Point.AFTER_LOOK, Point.AFTER_STAGE, Point.PUBLISHING])
def test_recover_settles_at_once_what_a_process_left_that_is_seen_to_be_gone(
    killed: RuntimeSetup, point: Point
) -> None:
    declared = killed.declare(revenue_task())
    crash(killed, declared, point)
    (left,) = killed.ledger.open_attempts()
    assert failed_labels(killed.ledger, "revenue") == ("2026-06-09",)
    assert [(one.attempt, one.state) for one in recover(killed.context, None)] == [(left.id, AttemptState.ABANDONED)]
    assert not killed.ledger.open_attempts()
    assert bool(killed.leftovers) == (point in (Point.AFTER_STAGE, Point.PUBLISHING)), "its JVM may still land them"


def test_a_run_that_finds_nothing_to_do_closes_what_a_killed_process_left_open(killed: RuntimeSetup) -> None:
    declared = killed.declare(revenue_task())
    killed.run(declared)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_LOOK)):
        killed.run(declared, kind="restate")
    (left,) = killed.ledger.open_attempts()
    killed.context = replace(killed.context, holder="alive")
    assert killed.run(declared).outcome is Outcome.ALREADY
    assert not killed.ledger.open_attempts()
    assert killed.ledger.attempt(left.id).state is AttemptState.ABANDONED  # type: ignore[union-attr]


def test_staged_rows_of_an_attempt_that_may_still_publish_are_never_collected(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    crash(runtime, declared, Point.AFTER_AUDIT)
    wake_later(runtime)
    recover(runtime.context, None)
    kept = collect_garbage(runtime.context, None)
    assert kept[0].files == 0
    assert len(kept[0].kept) == 1
    assert runtime.leftovers
    runtime.run(declared)
    assert not runtime.leftovers


def test_a_zombie_that_wakes_after_the_rerun_loses_and_names_the_winner(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    zombie = _Paused(runtime, declared, Point.PUBLISHING)
    wake_later(runtime)
    winner = zombie.while_paused(lambda: runtime.run(declared))
    assert winner.outcome is Outcome.PUBLISHED
    loser = zombie.result()
    assert loser.outcome is Outcome.ALREADY
    assert loser.why == f"published by {winner.attempt[:8]}"
    assert runtime.revenue == [(DAY, 15)]
    assert runtime.version == 1
    assert not runtime.leftovers


def test_a_zombie_with_another_intention_is_superseded(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    zombie = _Paused(runtime, declared, Point.PUBLISHING)
    wake_later(runtime)
    runtime.code[0] = "v2"
    zombie.while_paused(lambda: runtime.run(declared))
    with pytest.raises(Superseded, match="The table holds the other attempt's rows"):
        zombie.result()
    assert runtime.version == 1


def test_a_zombie_whose_inputs_have_no_version_is_not_informed_that_its_rows_are_there(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two unknowns are not the same: what the winner read may be older, or newer, than what the loser did."""
    monkeypatch.setattr(PlainEngine, "leaves", lambda *_: (Leaf("jdbc", "orders", None),))
    declared = runtime.declare(revenue_task())
    zombie = _Paused(runtime, declared, Point.PUBLISHING)
    wake_later(runtime)
    zombie.while_paused(lambda: runtime.run(declared))
    with pytest.raises(Superseded, match="cannot be shown that it read the same inputs"):
        zombie.result()
    assert runtime.version == 1
    assert not runtime.leftovers


def test_a_lost_reply_is_settled_by_asking_the_target(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = runtime.declare(revenue_task(policy=Policy(retry=Retry(attempts=1))))
    commit = runtime.target.commit

    def lands_then_breaks(*args: Any) -> Landed:
        commit(*args)
        raise OutcomeUnknown("the commit's reply was lost", now="The table may hold the rows.")

    monkeypatch.setattr(runtime.target, "commit", lands_then_breaks)
    with pytest.raises(
        OutcomeUnknown, match=r"revenue\[2026-06-09\]: the commit's reply was lost. The table may already hold"
    ):
        runtime.run(declared)
    assert runtime.ledger.attempts("revenue")[0].state is AttemptState.PUBLISHING
    monkeypatch.undo()
    wake_later(runtime)
    result = runtime.run(declared)
    assert result.outcome is Outcome.ALREADY
    assert "had published without reporting back" in result.notes[0]
    assert runtime.version == 1


def test_a_lost_reply_that_may_still_land_keeps_its_staged_rows(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = runtime.declare(revenue_task(policy=Policy(retry=Retry(attempts=1))))

    def breaks(*args: Any) -> Landed:
        raise OutcomeUnknown("the commit's reply was lost", now="The table may hold the rows.")

    monkeypatch.setattr(runtime.target, "commit", breaks)
    with pytest.raises(OutcomeUnknown):
        runtime.run(declared)
    assert runtime.leftovers, "a commit that is still on its way would publish files that are gone"


def test_an_attempt_that_others_have_passed_is_not_recorded_as_published(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    crash(runtime, declared, Point.AFTER_AUDIT)
    wake_later(runtime)
    winner = runtime.run(declared)
    ends = {attempt.id: attempt.state for attempt in runtime.ledger.attempts("revenue")}
    assert ends.pop(winner.attempt) is AttemptState.PUBLISHED
    assert list(ends.values()) == [AttemptState.SUPERSEDED]


def test_a_lost_ledger_is_learnt_again_from_the_table(runtime: RuntimeSetup, tmp_path: Any) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    fresh = Ledger.open(f"sqlite:///{tmp_path}/fresh.db", runtime.clock)
    runtime.ledger.close()
    runtime.context = replace(runtime.context, ledger=fresh)
    assert runtime.run(declared).outcome is Outcome.ALREADY
    known = fresh.run("revenue", "2026-06-09")
    assert known is not None
    assert known.generation == 1


def test_a_recreated_table_is_published_again_and_noted(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.run(declared, kind="restate")
    del runtime.target._tables[REVENUE.name]
    result = runtime.run(declared)
    assert result.outcome is Outcome.PUBLISHED
    assert result.slices[0].generation == 1
    assert "it was recreated" in result.notes[0]
    assert runtime.run(declared).notes == ()


def test_a_slow_run_lands_nothing_where_an_older_copy_was_put_back_and_published_upon(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task(policy=Policy(retry=Retry(attempts=1))))
    runtime.run(declared)
    runtime.run(declared, kind="restate")
    intruded: list[int] = []

    def intrude(point: Any) -> None:
        if point is Point.PUBLISHING and not intruded:
            intruded.append(1)
            wake_later(runtime)
            runtime.target._tables[REVENUE.name].versions.append(runtime.target._tables[REVENUE.name].versions[1])
            result = runtime.run(declared, kind="restate")
            intruded.append(result.slices[0].generation)

    with armed(intrude), pytest.raises(StageLost):
        runtime.run(declared, kind="restate")
    assert intruded == [1, 2], "the generation is the one that the slow run expects"
    assert not runtime.leftovers


def test_an_attempt_that_looked_after_gc_asked_the_table_keeps_what_it_staged(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = runtime.declare(revenue_task())
    crash(runtime, declared, Point.AFTER_STAGE)
    wake_later(runtime)
    published, asked = runtime.target.published, list[int]()

    def slow(*given: Any) -> Any:
        found = published(*given)
        if not asked:
            asked.append(1)
            runtime.run(declared)
            crash(runtime, declared, Point.AFTER_STAGE, kind="restate")
        return found

    monkeypatch.setattr(runtime.target, "published", slow)
    collect_garbage(runtime.context, None)
    (newest, *_) = runtime.ledger.attempts("revenue")
    assert newest.state.open
    assert runtime.target.leftovers(REVENUE, newest.id)


def test_a_slice_changed_by_others_is_reported_with_the_version_that_did_it(runtime: RuntimeSetup) -> None:
    declared = runtime.declare(revenue_task())
    runtime.run(declared)
    runtime.run(declared, "2026-06-10")
    table = runtime.target._tables[REVENUE.name]
    latest = table.versions[-1]
    kept = tuple(file for file in latest.files if file.value != DAY)
    table.versions.append(replace(latest, files=kept, note=None))
    result = runtime.run(declared)
    assert result.outcome is Outcome.ALREADY
    assert result.notes == (
        "2026-06-09 was changed by others in version 3 (WRITE); to fix it: twice restate revenue --date 2026-06-09",
    )
    assert runtime.run(declared, "2026-06-10").notes == ()
    runtime.run(declared, kind="restate")
    assert runtime.run(declared).notes == ()
    assert runtime.revenue[0] == (DAY, 15)


def test_a_ledger_that_cannot_record_the_intent_publishes_nothing(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = runtime.declare(revenue_task())
    advance = runtime.ledger.advance

    def full(claim: Any, before: AttemptState, after: AttemptState, *rest: Any) -> None:
        if after is AttemptState.PUBLISHING:
            raise OSError("database or disk is full")
        advance(claim, before, after, *rest)

    monkeypatch.setattr(runtime.ledger, "advance", full)
    with pytest.raises(Exception, match="disk is full"):
        runtime.run(declared)
    assert runtime.revenue == []


class _Paused:
    """A run in its own thread, stopped at a failpoint until it is to go on."""

    def __init__(self, runtime: RuntimeSetup, declared: Any, point: Point) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self._ended: list[RunResult | BaseException] = []
        self._thread = threading.Thread(target=Context().run, args=(self._run, runtime, declared, point))
        self._thread.start()
        assert self._reached.wait(10)

    def _run(self, runtime: RuntimeSetup, declared: Any, point: Point) -> None:
        def pause(passed: Point | SendPoint) -> None:
            if passed is point:
                self._reached.set()
                assert self._go.wait(10)

        try:
            with armed(pause):
                self._ended.append(runtime.run(declared))
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._ended.append(error)

    def while_paused(self, act: Any) -> RunResult:
        try:
            result: RunResult = act()
            return result
        finally:
            self._go.set()
            self._thread.join(10)

    def result(self) -> RunResult:
        (end,) = self._ended
        if isinstance(end, BaseException):
            raise end
        return end


def test_summed_adds_up_each_day(runtime: RuntimeSetup) -> None:
    assert summed(runtime.target.read(REVENUE.__class__("shop.orders"))).rows[0] == (DAY, 15)
