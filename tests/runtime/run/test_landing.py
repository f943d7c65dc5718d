"""Landed or not, whatever ends the run: an error, Ctrl-C, SIGTERM. The table is asked, what has landed is recorded and
announced once, and the message is true. No JVM."""

from __future__ import annotations

import os
import signal
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.endings import Ending, check_message, end_at, signals_raise
from tests.processes.ended import ended_process
from tests.runtime.conftest import DAY, RuntimeSetup, losing_the_reply, revenue_task

from twice import Outcome, Policy, PublishedSlice, Retry, Since, append_once, call, read, task
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.failure.interruption import BrokenOff, uninterrupted
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptState
from twice.core.ports import Landed
from twice.core.results.run import RunResult
from twice.core.since import SINCE
from twice.core.task import Task
from twice.errors import MAY_BE_MOVED, MOVED, Interrupted, LedgerOutOfReach, NotRecorded, OutcomeUnknown, RunError
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.check import check
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.recover import recover
from twice.senders.call import CallSender

LANDED = (Point.AFTER_COMMIT, Point.AFTER_PUBLISH, Point.AFTER_FINISH)
SLICE = "2026-06-09"


@pytest.fixture
def received() -> list[PublishedSlice]:
    return []


@pytest.fixture
def declared(runtime: RuntimeSetup, received: list[PublishedSlice]) -> Task:
    """A task with one effect, which is not tried again by itself."""

    def announce(result: PublishedSlice, key: str) -> str:
        received.append(result)
        return key

    runtime.context = replace(runtime.context, senders={"call": CallSender()})
    task = revenue_task(policy=Policy(retry=Retry(attempts=1)))
    return runtime.declare(replace(task, effects=(call(announce, keyed=False, name="announce"),)))


def check_clean(runtime: RuntimeSetup, received: list[PublishedSlice]) -> None:
    assert runtime.revenue == [(DAY, 15)]
    assert runtime.version == 1, "one commit per generation"
    assert [(one.slice, one.generation, one.rows) for one in received] == [(SLICE, 1, 1)]
    run = runtime.ledger.run("revenue", SLICE)
    assert run is not None
    assert (run.generation, run.rows) == (1, 1)
    assert not runtime.ledger.open_attempts()
    assert not runtime.ledger.undiscarded()
    assert not runtime.leftovers


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("point", Point)
def test_whatever_ends_a_run_anywhere_a_rerun_at_once_gives_the_clean_table_and_sends_it_once(
    runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], point: Point, ending: Ending
) -> None:
    end = end_at(point, ending, lambda: runtime.run(declared))
    landed = runtime.version == 1
    if point is not Point.AFTER_PLAN:  # nothing is claimed yet, and nothing is claimed of the table
        check_message(end, ending, landed)
    assert landed or point not in LANDED
    if landed:
        assert runtime.ledger.attempts("revenue")[0].state is AttemptState.PUBLISHED, "the ledger knows before the end"
    assert runtime.run(declared).outcome is (Outcome.ALREADY if landed else Outcome.PUBLISHED)
    check_clean(runtime, received)


@pytest.mark.parametrize("ending", [Ending.ERROR, Ending.CTRL_C])
@pytest.mark.parametrize("point", [Point.PUBLISHING, Point.BEFORE_COMMIT, *LANDED])
def test_after_any_end_recover_sends_what_was_published_and_nothing_else(
    runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], point: Point, ending: Ending
) -> None:
    end_at(point, ending, lambda: runtime.run(declared))
    recover(runtime.context, None)
    assert len(received) == (runtime.version == 1)
    runtime.run(declared)
    check_clean(runtime, received)


def test_an_error_after_the_commit_landed_is_a_note_and_the_run_is_published(
    runtime: RuntimeSetup, declared: Task
) -> None:
    end = end_at(Point.AFTER_COMMIT, Ending.ERROR, lambda: runtime.run(declared))
    assert isinstance(end, RunResult)
    assert (end.outcome, end.version) == (Outcome.PUBLISHED, 1)
    assert end.notes == ("published, and then ValueError: a disk hiccup",)


def test_a_ledger_that_stays_locked_after_the_commit_leaves_the_publish_to_the_next_look(
    runtime: RuntimeSetup,
    declared: Task,
    received: list[PublishedSlice],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)

    def lock(passed: Any) -> None:
        if passed is Point.AFTER_COMMIT:
            other.execute("BEGIN IMMEDIATE")

    monkeypatch.setattr("twice.ledgers.database.connect.BUSY_SECONDS", 0.2)
    impatient = Ledger.open(f"sqlite:///{tmp_path}/ledger.db", runtime.clock)
    runtime.context, context = replace(runtime.context, ledger=impatient), runtime.context
    with pytest.raises(NotRecorded) as failed, armed(lock):
        runtime.run(declared)
    impatient.close()
    assert str(failed.value) == (
        "revenue[2026-06-09]: the rows are published, but the ledger could not record it: another process has been "
        "writing to the ledger for too long (database is locked). The table holds the new rows. Run it again: it will "
        "look first. It then records the publish and sends its effects."
    )
    other.execute("ROLLBACK")
    other.close()
    runtime.context = context
    assert runtime.ledger.attempts("revenue")[0].state is AttemptState.PUBLISHING
    assert [effect.state for effect in runtime.ledger.outbox.listed((), None, 9)] == [EffectState.PREPARED]
    runtime.ledger.release(runtime.ledger.attempts("revenue")[0].id)  # its own process could not
    assert runtime.run(declared).outcome is Outcome.ALREADY
    check_clean(runtime, received)


def test_a_table_that_cannot_be_asked_leaves_the_attempt_open_and_its_slice_free(
    runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutcomeUnknown) as failed, losing_the_reply(runtime, monkeypatch):
        runtime.run(declared)
    assert str(failed.value) == (
        "revenue[2026-06-09]: ValueError while it was being published, and the table cannot be read: the warehouse is "
        "away. The table may already hold these rows. Run it again: it will look first."
    )
    assert runtime.ledger.attempts("revenue")[0].state is AttemptState.PUBLISHING
    monkeypatch.undo()
    assert runtime.run(declared).outcome is Outcome.ALREADY
    check_clean(runtime, received)


def test_a_second_signal_breaks_into_the_commit_and_the_outcome_is_unknown(
    runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice]
) -> None:
    def press_twice(passed: Any) -> None:
        if passed is Point.AFTER_COMMIT:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with signals_raise(), pytest.raises(Interrupted) as ended, armed(press_twice):
        runtime.run(declared)
    assert isinstance(ended.value.__cause__, BrokenOff)
    assert ended.value.exit_code == 130
    assert str(ended.value) == (
        "revenue[2026-06-09]: interrupted, while it was being published. The table may already hold these rows. "
        "Run it again: it will look first."
    )
    assert runtime.run(declared).outcome is Outcome.ALREADY
    check_clean(runtime, received)


@pytest.mark.parametrize(
    ("interrupt", "known"),
    [
        (KeyboardInterrupt, "interrupted. The table is unchanged"),
        (BrokenOff, "interrupted, while it was being published. The table may already hold"),
    ],
)
def test_an_interrupt_stays_one_if_what_is_let_go_on_the_way_out_fails_in_its_turn(
    runtime: RuntimeSetup, declared: Task, monkeypatch: pytest.MonkeyPatch, interrupt: Any, known: str
) -> None:
    def press(passed: Any) -> None:
        if passed is Point.BEFORE_COMMIT:
            try:
                raise interrupt
            finally:
                raise ConnectionError("the line is gone")  # what a lock or a session's setting may say, being let go

    with armed(press), pytest.raises(Interrupted, match=known) as ended:
        runtime.run(declared)
    assert ended.value.exit_code == 130
    open_ = [AttemptState.PUBLISHING] if interrupt is BrokenOff else []
    assert [attempt.state for attempt in runtime.ledger.open_attempts()] == open_


@pytest.mark.parametrize("kind", [KeyboardInterrupt, BrokenOff, OutcomeUnknown])
@pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT])
def test_what_the_caller_is_handling_is_not_taken_for_what_ended_the_run(
    runtime: RuntimeSetup, declared: Task, kind: type[BaseException], point: Point
) -> None:
    before = kind("of something else")

    def call_while_handling() -> RunResult:
        try:
            raise before
        except (KeyboardInterrupt, OutcomeUnknown):
            return runtime.run(declared)

    end = end_at(point, Ending.ERROR, call_while_handling)
    assert type(end) is RunError, repr(end)
    assert end.__cause__ is not None
    assert end.__cause__.__context__ is before
    assert str(end).startswith("revenue[2026-06-09]: ValueError: a disk hiccup. The table is unchanged.")
    assert [attempt.state for attempt in runtime.ledger.attempts("revenue")] == [AttemptState.FAILED]
    assert not runtime.ledger.undiscarded(), "nobody is writing for it any more"


@pytest.mark.parametrize("point", [Point.AFTER_CLAIM, Point.AFTER_LOOK, Point.AFTER_COMPUTE])
@pytest.mark.parametrize("error", [RuntimeError("refused"), KeyboardInterrupt()], ids=["refused", "interrupted"])
def test_what_ended_before_anything_was_staged_has_nothing_to_discard(
    runtime: RuntimeSetup, declared: Task, point: Point, error: BaseException
) -> None:
    def refuse(passed: Any) -> None:
        if passed is point:
            raise error

    with pytest.raises((RunError, Interrupted)), armed(refuse):
        runtime.run(declared)
    assert runtime.ledger.attempts("revenue")[0].state is AttemptState.FAILED
    assert check(runtime.context, None) == ()


def test_what_an_interrupt_left_of_a_stage_is_still_looked_for(runtime: RuntimeSetup, declared: Task) -> None:
    def interrupt(passed: Any) -> None:
        if passed is Point.IN_STAGE:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted), armed(interrupt):
        runtime.run(declared)
    (left,) = check(runtime.context, None)
    assert "may have left staged files" in left.what


class TestGivenUpTooEarly:
    """Python died, its JVM lives on and lands after `recover` has given the attempt up."""

    @pytest.fixture(params=["its lease ran out", "its process is seen to be gone"])
    def orphan(
        self, runtime: RuntimeSetup, declared: Task, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> Any:
        """Given up by `recover`; a call of it lands."""
        gone = request.param == "its process is seen to be gone"
        if gone:
            runtime.context = replace(runtime.context, holder=ended_process())
        commit, given = runtime.target.commit, list[Any]()

        def dies(*args: Any) -> Landed:
            given.append(args)
            raise Crash

        monkeypatch.setattr(runtime.target, "commit", dies)
        with pytest.raises(Crash):
            runtime.run(declared)
        monkeypatch.undo()
        if not gone:
            runtime.clock.ahead += timedelta(hours=1)
        assert [one.state for one in recover(runtime.context, None)] == [AttemptState.ABANDONED]
        assert [effect.state for effect in runtime.ledger.outbox.listed((), None, 9)] == [EffectState.CANCELLED]
        return lambda: commit(*given[0])

    def test_the_next_run_finds_it_and_sends_what_it_had_to_send(
        self, runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], orphan: Any
    ) -> None:
        orphan()
        result = runtime.run(declared)
        assert result.outcome is Outcome.ALREADY
        assert "had published without reporting back" in result.notes[0]
        check_clean(runtime, received)

    def test_recover_finds_it(
        self, runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], orphan: Any
    ) -> None:
        orphan()
        assert [one.state for one in recover(runtime.context, None)] == [AttemptState.PUBLISHED]
        assert recover(runtime.context, None) == ()
        check_clean(runtime, received)

    def test_also_if_its_staged_rows_were_thought_to_be_gone(
        self, runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], orphan: Any
    ) -> None:
        orphan()
        runtime.ledger.discarded(runtime.ledger.attempts("revenue")[0].id)
        assert runtime.run(declared).outcome is Outcome.ALREADY
        check_clean(runtime, received)

    def test_one_that_never_lands_sends_nothing(
        self, runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], orphan: Any
    ) -> None:
        assert runtime.run(declared).outcome is Outcome.PUBLISHED
        check_clean(runtime, received)


class TestMarkReset:
    """The mark moves by a commit like any other: a reset that ends around it is reported as truly."""

    TO_1 = Reset("1", "ada", "the source was corrected")

    @pytest.fixture
    def feed(self, runtime: RuntimeSetup) -> Task:
        """It has read the orders below 3."""
        declare = task(
            "shop.feed",
            scope=Since("order_id", initial=0),
            inputs={"orders": read("shop.orders", by="order_id")},
            write=append_once(),
            name="feed",
        )
        declared = runtime.declare(declare(lambda orders: orders))
        run_task(runtime.context, declared, (SINCE,))
        return declared

    def check_rerun(self, runtime: RuntimeSetup, feed: Task, moved: bool) -> RunResult:
        """At once. It reads the orders from the mark on, below 4."""
        runtime.put_orders((1, DAY, 10), (2, DAY, 5), (3, DAY, 7), (4, DAY, 8))
        result = run_task(runtime.context, feed, (SINCE,))
        again = (1, 2) if moved else ()
        assert sorted(row[0] for row in runtime.target.read(feed.target).rows) == sorted((1, 2, 3, *again))
        assert not [note for note in result.notes if "recreated" in note]
        assert not runtime.ledger.open_attempts()
        run = runtime.ledger.run("feed", "since")
        assert run is not None
        assert run.generation == show_mark(runtime.context, feed).version
        return result

    @pytest.mark.parametrize("ending", Ending)
    @pytest.mark.parametrize(
        "point",
        [Point.IN_STAGE, Point.PUBLISHING, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, Point.AFTER_PUBLISH],
    )
    def test_whatever_ends_a_reset_anywhere_the_ledger_and_the_message_say_where_the_mark_is(
        self, runtime: RuntimeSetup, feed: Task, point: Point, ending: Ending
    ) -> None:
        end = end_at(point, ending, lambda: reset_mark(runtime.context, feed, self.TO_1))
        moved = point in LANDED
        assert show_mark(runtime.context, feed).at == ("1" if moved else "3")
        check_message(end, ending, moved, MOVED, MAY_BE_MOVED)
        attempt, run = runtime.ledger.attempts("feed")[0], runtime.ledger.run("feed", "since")
        assert attempt.state is (AttemptState.PUBLISHED if moved else AttemptState.FAILED)
        assert run is not None
        assert run.generation == show_mark(runtime.context, feed).version
        assert self.check_rerun(runtime, feed, moved).notes == ()

    def test_an_error_after_the_mark_has_moved_is_a_note(self, runtime: RuntimeSetup, feed: Task) -> None:
        end = end_at(Point.AFTER_COMMIT, Ending.ERROR, lambda: reset_mark(runtime.context, feed, self.TO_1))
        assert isinstance(end, tuple)
        assert (end[0].at, end[1].at) == ("3", "1")
        assert runtime.ledger.attempts("feed")[0].notes == (
            "mark reset from 3 to 1 by ada: the source was corrected",
            "moved, and then ValueError: a disk hiccup",
        )

    @pytest.mark.parametrize("point", [Point.AFTER_COMMIT, Point.AFTER_PUBLISH])
    def test_a_reset_that_was_killed_is_recorded_by_the_next_run_and_not_taken_for_an_older_copy(
        self, runtime: RuntimeSetup, feed: Task, point: Point
    ) -> None:
        with pytest.raises(Crash), armed(crash_at(point)):
            reset_mark(runtime.context, feed, self.TO_1)
        runtime.clock.ahead += timedelta(hours=1)
        reset = runtime.ledger.attempts("feed")[0].id[:8]
        assert self.check_rerun(runtime, feed, moved=True).notes == (
            f"attempt {reset} had published without reporting back; it is recorded now",
            "the mark of since was reset: the table holds mark 1 where mark 3 was published",
        )

    def test_a_ledger_that_cannot_be_written_leaves_the_reset_to_the_next_look(
        self, runtime: RuntimeSetup, feed: Task, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: Any, **__: Any) -> None:
            raise LedgerOutOfReach("the ledger's server is away")

        monkeypatch.setattr(runtime.ledger, "publish", away)
        with pytest.raises(NotRecorded) as failed:
            reset_mark(runtime.context, feed, self.TO_1)
        assert str(failed.value) == (
            "feed[since]: the mark is moved, but the ledger could not record it: the ledger's server is away. "
            "The mark is moved. Run it again: it will look first. It then records the reset."
        )
        monkeypatch.undo()
        runtime.ledger.release(runtime.ledger.attempts("feed")[0].id)  # its own process could not
        self.check_rerun(runtime, feed, moved=True)

    def test_a_table_that_cannot_be_asked_leaves_the_reset_open(
        self, runtime: RuntimeSetup, feed: Task, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(OutcomeUnknown) as failed, losing_the_reply(runtime, monkeypatch):
            reset_mark(runtime.context, feed, self.TO_1)
        assert str(failed.value) == (
            "feed[since]: ValueError while the mark was being moved, and the table cannot be read: the warehouse is "
            "away. The mark may already be moved. Run it again: it will look first."
        )
        assert runtime.ledger.attempts("feed")[0].state is AttemptState.PUBLISHING
        monkeypatch.undo()
        self.check_rerun(runtime, feed, moved=True)

    def test_who_is_interrupted_while_it_claims_holds_nothing(
        self, runtime: RuntimeSetup, feed: Task, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        claim = runtime.ledger.claim

        def pressed_right_after(*args: Any, **kwargs: Any) -> Any:
            claim(*args, **kwargs)
            raise KeyboardInterrupt

        monkeypatch.setattr(runtime.ledger, "claim", pressed_right_after)
        with pytest.raises(KeyboardInterrupt):
            reset_mark(runtime.context, feed, self.TO_1)
        monkeypatch.undo()
        self.check_rerun(runtime, feed, moved=False)


def test_a_stage_that_cannot_be_discarded_does_not_hide_the_real_error(
    runtime: RuntimeSetup, declared: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: Any) -> int:
        raise OSError("device or resource busy")

    monkeypatch.setattr(runtime.target, "discard", stuck)
    end = end_at(Point.IN_STAGE, Ending.ERROR, lambda: runtime.run(declared))
    assert isinstance(end, RunError)
    assert end.what == "ValueError: a disk hiccup"
    assert len(runtime.ledger.undiscarded()) == 1
    monkeypatch.undo()
    runtime.run(declared)
    assert not runtime.leftovers


def test_tidying_up_after_a_recorded_publish_does_not_fail_the_run(
    runtime: RuntimeSetup, declared: Task, received: list[PublishedSlice], monkeypatch: pytest.MonkeyPatch
) -> None:
    end_at(Point.AFTER_STAGE, Ending.INTERRUPT, lambda: runtime.run(declared))  # leaves something to look for

    def stuck(*_: Any) -> NoReturn:
        raise OSError("device or resource busy")

    monkeypatch.setattr(runtime.target, "discard", stuck)
    runtime.context = replace(runtime.context, release_session=stuck)
    result = runtime.run(declared)
    assert result.outcome is Outcome.PUBLISHED
    assert result.notes == ("files of dead attempts could not be deleted: device or resource busy",)
    assert len(received) == 1


@pytest.mark.parametrize("ending", [Ending.ERROR, Ending.CTRL_C])
@pytest.mark.parametrize("failure", [None, OSError("device or resource busy"), KeyboardInterrupt()])
def test_what_landed_without_being_used_is_removed_after_the_ledger_knows(
    runtime: RuntimeSetup,
    declared: Task,
    monkeypatch: pytest.MonkeyPatch,
    ending: Ending,
    failure: BaseException | None,
) -> None:
    """It may wait for the table's lock: until it is recorded, others see that the slice is busy."""
    discard, seen = runtime.target.discard, list[AttemptState]()

    def slow(*given: Any) -> int:
        seen.append(runtime.ledger.attempts("revenue")[0].state)
        if failure is not None:
            raise failure
        return discard(*given)

    monkeypatch.setattr(runtime.target, "discard", slow)
    end = end_at(Point.AFTER_COMMIT, ending, lambda: runtime.run(declared))
    assert seen == [AttemptState.PUBLISHED]
    if ending is Ending.ERROR and not isinstance(failure, KeyboardInterrupt):
        assert isinstance(end, RunResult)
        assert end.outcome is Outcome.PUBLISHED
    else:
        assert isinstance(end, Interrupted)
        assert "interrupted. The table holds the new rows." in str(end)
        assert end.exit_code == 130


def test_who_is_interrupted_while_it_claims_holds_nothing(
    runtime: RuntimeSetup, declared: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = runtime.ledger.claim

    def pressed_right_after(*args: Any, **kwargs: Any) -> Any:
        claim(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime.ledger, "claim", pressed_right_after)
    with pytest.raises(KeyboardInterrupt):
        runtime.run(declared)
    monkeypatch.undo()
    assert runtime.run(declared).outcome is Outcome.PUBLISHED


def test_a_signal_waits_for_the_end_of_what_must_not_be_cut_in_two() -> None:
    done: list[str] = []
    with signals_raise():
        ours = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as ended, uninterrupted(lambda: done.append("asked to hurry")):
            os.kill(os.getpid(), signal.SIGINT)
            done.append("the rest")
        assert signal.getsignal(signal.SIGINT) is ours, "handlers are given back"
    assert not isinstance(ended.value, BrokenOff)
    assert done == ["asked to hurry", "the rest"]
