"""A thread that another one asks to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from twice.core.failure import stopping
from twice.core.failure.interruption import interruption, uninterrupted
from twice.core.failure.stopping import Stoppable, current


def in_thread(body: Callable[[Stoppable], Any], ended: list[str] | None = None) -> list[Any]:
    """What the thread's body gave or raised. `ended` hears each time that its jobs are ended."""
    stoppable, heard = Stoppable(), [] if ended is None else ended

    def run() -> None:
        with stoppable.current(lambda: heard.append("jobs")):
            try:
                outcome.append(body(stoppable))
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                outcome.append(error)

    outcome: list[Any] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    return outcome


def test_who_was_asked_stops_at_the_next_place_for_it() -> None:
    def body(mine: Stoppable) -> str:
        stopping.check()
        mine.ask()
        stopping.check()
        return "went on"

    (raised,) = in_thread(body)
    assert type(raised) is KeyboardInterrupt


def test_what_must_not_be_cut_in_two_ends_first_and_its_jobs_with_it() -> None:
    ended: list[str] = []
    seen: list[str] = []

    def body(mine: Stoppable) -> None:
        with uninterrupted():
            mine.ask()
            stopping.check()
            with uninterrupted():
                pass
            seen.append(f"jobs ended {len(ended)} times")
        seen.append("went on")

    (raised,) = in_thread(body, ended)
    assert type(raised) is KeyboardInterrupt
    assert seen == ["jobs ended 0 times"]


def test_where_a_block_may_be_made_to_end_sooner_its_jobs_are_ended() -> None:
    ended: list[str] = []

    def body(mine: Stoppable) -> None:
        with uninterrupted(at_once=lambda: None):
            mine.ask()
            assert ended == ["jobs"]

    (raised,) = in_thread(body, ended)
    assert type(raised) is KeyboardInterrupt


def test_on_the_way_out_of_an_error_nothing_is_stopped_again() -> None:
    def body(mine: Stoppable) -> str:
        mine.ask()
        try:
            raise ValueError("what a job that was ended says")
        except ValueError:
            with uninterrupted():
                return "recorded"

    assert in_thread(body) == ["recorded"]


def test_any_error_of_a_thread_whose_jobs_were_ended_is_the_interrupt() -> None:
    def body(mine: Stoppable) -> tuple[Any, Any]:
        before = interruption(ValueError("a failure"))
        mine.ask()
        return before, interruption(ValueError("job 7 cancelled"))

    ((before, after),) = in_thread(body)
    assert (before, type(after)) == (None, KeyboardInterrupt)


def test_a_pause_ends_when_it_is_asked() -> None:
    def body(mine: Stoppable) -> str:
        threading.Timer(0.05, mine.ask).start()
        stopping.pause(15)
        return "slept"

    (raised,) = in_thread(body)
    assert type(raised) is KeyboardInterrupt


def test_a_thread_that_nobody_asks_is_left_alone() -> None:
    assert current() is None
    stopping.check()
    stopping.pause(0)
    with uninterrupted():
        pass


def test_a_signal_ends_the_jobs_of_its_own_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of threads that it waits for may be a commit's: they are asked."""
    from twice.engine.session import interrupts

    stopped = threading.Event()
    monkeypatch.setattr(interrupts, "stop_jobs", stopped.set)

    def raises(*_: Any) -> None:
        raise KeyboardInterrupt

    handler = interrupts._Stopping(raises)
    with stopping.waiting_for_threads(), pytest.raises(KeyboardInterrupt):
        handler(2, None)
    assert not [thread for thread in threading.enumerate() if thread.name == "twice-stop"]
    assert not stopped.is_set()
    with pytest.raises(KeyboardInterrupt):
        handler(2, None)
    assert stopped.wait(10)
