"""Crash anywhere, run again: the same table, one commit per generation, nothing left behind. No JVM here."""

from __future__ import annotations

import threading
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.processes.ended import ended_process

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

from .conftest import DAY, REVENUE, Bench, revenue_task, summed


def crash(bench: Bench, declared: Any, point: Point, kind: Any = "run") -> None:
    with pytest.raises(Crash), armed(crash_at(point)):
        bench.run(declared, kind=kind)


def wake_later(bench: Bench) -> None:
    """Time passes; the dead attempt's lease runs out."""
    bench.clock.ahead += timedelta(hours=1)


@pytest.mark.parametrize("point", Point)
def test_after_a_crash_anywhere_a_plain_rerun_gives_the_clean_table(bench: Bench, point: Point) -> None:
    declared = bench.declare(revenue_task())
    crash(bench, declared, point)
    wake_later(bench)
    result = bench.run(declared)
    assert result.slices[0].generation == 1
    assert bench.revenue == [(DAY, 15)]
    assert bench.version == 1, "one commit per generation"
    landed = point in (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
    assert result.outcome is (Outcome.ALREADY if landed else Outcome.PUBLISHED)
    assert not bench.leftovers
    run = bench.ledger.run("revenue", "2026-06-09")
    assert run is not None
    assert (run.generation, run.rows) == (1, 1)
    assert not bench.ledger.open_attempts()
    assert not bench.ledger.undiscarded()


@pytest.mark.parametrize("point", Point)
def test_recover_settles_a_crash_and_a_second_recover_finds_nothing(bench: Bench, point: Point) -> None:
    declared = bench.declare(revenue_task())
    crash(bench, declared, point)
    wake_later(bench)
    first = recover(bench.context, None)
    again = recover(bench.context, None)
    assert again == ()
    assert not bench.ledger.open_attempts()
    landed = point in (Point.AFTER_COMMIT, Point.AFTER_PUBLISH)
    quiet = point in (Point.AFTER_PLAN, Point.AFTER_FINISH)
    assert [one.state for one in first] == (
        [] if quiet else [AttemptState.PUBLISHED if landed else AttemptState.ABANDONED]
    )
    bench.run(declared)
    assert bench.revenue == [(DAY, 15)]
    assert bench.version == 1


def test_every_failpoint_is_reached_by_a_run_that_publishes(bench: Bench) -> None:
    reached: list[Point | SendPoint] = []
    with armed(reached.append):
        bench.run(bench.declare(revenue_task()))
    assert reached == list(Point)


def test_recover_leaves_a_living_attempt_alone(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    crash(bench, declared, Point.AFTER_STAGE)
    assert recover(bench.context, None) == ()
    assert len(bench.ledger.open_attempts()) == 1


@pytest.fixture
def killed(bench: Bench) -> Bench:
    """What this bench runs belongs to a process of this machine that has ended."""
    bench.context = replace(bench.context, holder=ended_process())
    return bench


@pytest.mark.parametrize("point", [Point.AFTER_CLAIM, Point.AFTER_LOOK, Point.AFTER_STAGE, Point.PUBLISHING])
def test_recover_settles_at_once_what_a_process_left_that_is_seen_to_be_gone(killed: Bench, point: Point) -> None:
    declared = killed.declare(revenue_task())
    crash(killed, declared, point)
    (left,) = killed.ledger.open_attempts()
    assert failed_labels(killed.ledger, "revenue") == ("2026-06-09",)
    assert [(one.attempt, one.state) for one in recover(killed.context, None)] == [(left.id, AttemptState.ABANDONED)]
    assert not killed.ledger.open_attempts()
    assert bool(killed.leftovers) == (point in (Point.AFTER_STAGE, Point.PUBLISHING)), "its JVM may still land them"


def test_a_run_that_finds_nothing_to_do_closes_what_a_killed_process_left_open(killed: Bench) -> None:
    declared = killed.declare(revenue_task())
    killed.run(declared)
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_LOOK)):
        killed.run(declared, kind="restate")
    (left,) = killed.ledger.open_attempts()
    killed.context = replace(killed.context, holder="alive")
    assert killed.run(declared).outcome is Outcome.ALREADY
    assert not killed.ledger.open_attempts()
    assert killed.ledger.attempt(left.id).state is AttemptState.ABANDONED  # type: ignore[union-attr]


def test_staged_rows_of_an_attempt_that_may_still_publish_are_never_collected(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    crash(bench, declared, Point.AFTER_AUDIT)
    wake_later(bench)
    recover(bench.context, None)
    kept = collect_garbage(bench.context, None)
    assert kept[0].files == 0
    assert len(kept[0].kept) == 1
    assert bench.leftovers
    bench.run(declared)
    assert not bench.leftovers


def test_a_zombie_that_wakes_after_the_rerun_loses_and_names_the_winner(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    zombie = _Paused(bench, declared, Point.PUBLISHING)
    wake_later(bench)
    winner = zombie.while_paused(lambda: bench.run(declared))
    assert winner.outcome is Outcome.PUBLISHED
    loser = zombie.result()
    assert loser.outcome is Outcome.ALREADY
    assert loser.why == f"published by {winner.attempt[:8]}"
    assert bench.revenue == [(DAY, 15)]
    assert bench.version == 1
    assert not bench.leftovers


def test_a_zombie_with_another_intention_is_superseded(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    zombie = _Paused(bench, declared, Point.PUBLISHING)
    wake_later(bench)
    bench.code[0] = "v2"
    zombie.while_paused(lambda: bench.run(declared))
    with pytest.raises(Superseded, match="The table holds the other attempt's rows"):
        zombie.result()
    assert bench.version == 1


def test_a_zombie_whose_inputs_have_no_version_is_not_informed_that_its_rows_are_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two unknowns are not the same: what the winner read may be older, or newer, than what the loser did."""
    monkeypatch.setattr(PlainEngine, "leaves", lambda *_: (Leaf("jdbc", "orders", None),))
    declared = bench.declare(revenue_task())
    zombie = _Paused(bench, declared, Point.PUBLISHING)
    wake_later(bench)
    zombie.while_paused(lambda: bench.run(declared))
    with pytest.raises(Superseded, match="cannot be shown that it read the same inputs"):
        zombie.result()
    assert bench.version == 1
    assert not bench.leftovers


def test_a_lost_reply_is_settled_by_asking_the_target(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = bench.declare(revenue_task(policy=Policy(retry=Retry(attempts=1))))
    commit = bench.target.commit

    def lands_then_breaks(*args: Any) -> Landed:
        commit(*args)
        raise OutcomeUnknown("the commit's reply was lost", now="The table may hold the rows.")

    monkeypatch.setattr(bench.target, "commit", lands_then_breaks)
    with pytest.raises(
        OutcomeUnknown, match=r"revenue\[2026-06-09\]: the commit's reply was lost. The table may already hold"
    ):
        bench.run(declared)
    assert bench.ledger.attempts("revenue")[0].state is AttemptState.PUBLISHING
    monkeypatch.undo()
    wake_later(bench)
    result = bench.run(declared)
    assert result.outcome is Outcome.ALREADY
    assert "had published without reporting back" in result.notes[0]
    assert bench.version == 1


def test_a_lost_reply_that_may_still_land_keeps_its_staged_rows(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = bench.declare(revenue_task(policy=Policy(retry=Retry(attempts=1))))

    def breaks(*args: Any) -> Landed:
        raise OutcomeUnknown("the commit's reply was lost", now="The table may hold the rows.")

    monkeypatch.setattr(bench.target, "commit", breaks)
    with pytest.raises(OutcomeUnknown):
        bench.run(declared)
    assert bench.leftovers, "a commit that is still on its way would publish files that are gone"


def test_an_attempt_that_others_have_passed_is_not_recorded_as_published(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    crash(bench, declared, Point.AFTER_AUDIT)
    wake_later(bench)
    winner = bench.run(declared)
    ends = {attempt.id: attempt.state for attempt in bench.ledger.attempts("revenue")}
    assert ends.pop(winner.attempt) is AttemptState.PUBLISHED
    assert list(ends.values()) == [AttemptState.SUPERSEDED]


def test_a_lost_ledger_is_learnt_again_from_the_table(bench: Bench, tmp_path: Any) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    fresh = Ledger.open(f"sqlite:///{tmp_path}/fresh.db", bench.clock)
    bench.ledger.close()
    bench.context = replace(bench.context, ledger=fresh)
    assert bench.run(declared).outcome is Outcome.ALREADY
    known = fresh.run("revenue", "2026-06-09")
    assert known is not None
    assert known.generation == 1


def test_a_recreated_table_is_published_again_and_noted(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    bench.run(declared, kind="restate")
    del bench.target._tables[REVENUE.name]
    result = bench.run(declared)
    assert result.outcome is Outcome.PUBLISHED
    assert result.slices[0].generation == 1
    assert "it was recreated" in result.notes[0]
    assert bench.run(declared).notes == ()


def test_a_slow_run_lands_nothing_where_an_older_copy_was_put_back_and_published_upon(bench: Bench) -> None:
    declared = bench.declare(revenue_task(policy=Policy(retry=Retry(attempts=1))))
    bench.run(declared)
    bench.run(declared, kind="restate")
    intruded: list[int] = []

    def intrude(point: Any) -> None:
        if point is Point.PUBLISHING and not intruded:
            intruded.append(1)
            wake_later(bench)
            bench.target._tables[REVENUE.name].versions.append(bench.target._tables[REVENUE.name].versions[1])
            result = bench.run(declared, kind="restate")
            intruded.append(result.slices[0].generation)

    with armed(intrude), pytest.raises(StageLost):
        bench.run(declared, kind="restate")
    assert intruded == [1, 2], "the generation is the one that the slow run expects"
    assert not bench.leftovers


def test_an_attempt_that_looked_after_gc_asked_the_table_keeps_what_it_staged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = bench.declare(revenue_task())
    crash(bench, declared, Point.AFTER_STAGE)
    wake_later(bench)
    published, asked = bench.target.published, list[int]()

    def slow(*given: Any) -> Any:
        found = published(*given)
        if not asked:
            asked.append(1)
            bench.run(declared)
            crash(bench, declared, Point.AFTER_STAGE, kind="restate")
        return found

    monkeypatch.setattr(bench.target, "published", slow)
    collect_garbage(bench.context, None)
    (newest, *_) = bench.ledger.attempts("revenue")
    assert newest.state.open
    assert bench.target.leftovers(REVENUE, newest.id)


def test_a_slice_changed_by_others_is_reported_with_the_version_that_did_it(bench: Bench) -> None:
    declared = bench.declare(revenue_task())
    bench.run(declared)
    bench.run(declared, "2026-06-10")
    table = bench.target._tables[REVENUE.name]
    latest = table.versions[-1]
    kept = tuple(file for file in latest.files if file.value != DAY)
    table.versions.append(replace(latest, files=kept, note=None))
    result = bench.run(declared)
    assert result.outcome is Outcome.ALREADY
    assert result.notes == (
        "2026-06-09 was changed by others in version 3 (WRITE); to fix it: twice restate revenue --date 2026-06-09",
    )
    assert bench.run(declared, "2026-06-10").notes == ()
    bench.run(declared, kind="restate")
    assert bench.run(declared).notes == ()
    assert bench.revenue[0] == (DAY, 15)


def test_a_ledger_that_cannot_record_the_intent_publishes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = bench.declare(revenue_task())
    advance = bench.ledger.advance

    def full(claim: Any, before: AttemptState, after: AttemptState, *rest: Any) -> None:
        if after is AttemptState.PUBLISHING:
            raise OSError("database or disk is full")
        advance(claim, before, after, *rest)

    monkeypatch.setattr(bench.ledger, "advance", full)
    with pytest.raises(Exception, match="disk is full"):
        bench.run(declared)
    assert bench.revenue == []


class _Paused:
    """A run in its own thread, stopped at a failpoint until it is to go on."""

    def __init__(self, bench: Bench, declared: Any, point: Point) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self._ended: list[RunResult | BaseException] = []
        self._thread = threading.Thread(target=Context().run, args=(self._run, bench, declared, point))
        self._thread.start()
        assert self._reached.wait(10)

    def _run(self, bench: Bench, declared: Any, point: Point) -> None:
        def pause(passed: Point | SendPoint) -> None:
            if passed is point:
                self._reached.set()
                assert self._go.wait(10)

        try:
            with armed(pause):
                self._ended.append(bench.run(declared))
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


def test_summed_adds_up_each_day(bench: Bench) -> None:
    assert summed(bench.target.read(REVENUE.__class__("shop.orders"))).rows[0] == (DAY, 15)
