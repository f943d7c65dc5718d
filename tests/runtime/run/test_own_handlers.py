"""A signal that a caller handles in its own way: the run ends as at Ctrl-C, also where it is in the caller's own code,
and the caller gets what its handler raised. No JVM."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.endings import Stopped
from tests.runtime.conftest import RuntimeSetup, revenue_task, summed
from tests.runtime.starting import start

from twice import Policy, Retry, audit, call
from twice.core.backfill.plan import BackfillRequest
from twice.core.backfill.result import BatchState
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.failure.interruption import BrokenOff
from twice.core.ledger.record import AttemptState
from twice.core.results.run import Outcome
from twice.core.task import Task
from twice.errors import UserCodeError
from twice.runtime.backfill.worker import Stop, work
from twice.senders.call import CallSender
from twice.targets.memory.rows import Rows
from twice.wiring.discover import discover


class OwnInterrupt(KeyboardInterrupt):
    """As some frameworks have one."""


def exits(_number: int, _frame: Any) -> None:
    sys.exit(7)


def forgets(number: int, frame: Any) -> None:
    """It lets nothing be seen of what it was given."""
    del number, frame
    sys.exit(7)


def only_once(number: int, _frame: Any) -> None:
    """By now another one is installed, as many say before they exit."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(7)


def counts(*_all: Any) -> None:
    sys.exit(7)


def with_more(_more: str, number: int, frame: Any) -> None:
    exits(number, frame)


class Worker:
    def stops(self, number: int, frame: Any) -> None:
        raise Stopped

    def __call__(self, *_all: Any) -> None:
        raise OwnInterrupt


def late(_number: int, _frame: Any) -> None:
    raise TimeoutError("it was to end by now")  # in a task's own code, this would be tried again


HANDLERS: dict[str, tuple[Callable[..., Any], type[BaseException]]] = {
    "a function": (exits, SystemExit),
    "one that forgets its arguments": (forgets, SystemExit),
    "one that works once": (only_once, SystemExit),
    "one of any arguments": (counts, SystemExit),
    "a partial": (functools.partial(with_more, "more"), SystemExit),
    "a bound method": (Worker().stops, Stopped),
    "an object": (Worker(), OwnInterrupt),
    "one that raises an ordinary error": (late, TimeoutError),
}


@contextmanager
def handled_by(handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def told_to_end(orders: Rows) -> Rows:
    os.kill(os.getpid(), signal.SIGTERM)
    return summed(orders)


def told_to_end_in_audit(_: Any) -> bool:
    os.kill(os.getpid(), signal.SIGTERM)
    return True


CODE = {
    "the task": revenue_task(told_to_end),
    "an audit": revenue_task(audits=(audit.custom(told_to_end_in_audit, name="seen"),)),
}


@pytest.mark.parametrize("code", CODE)
@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_callers_handler_raises_in_the_callers_code_ends_the_run_and_frees_its_slice(
    runtime: RuntimeSetup, code: str, handler: str
) -> None:
    declared, (handle, raised) = runtime.declare(CODE[code]), HANDLERS[handler]
    with handled_by(handle), pytest.raises(raised) as ended:
        runtime.run(declared)
    assert type(ended.value) is raised
    assert [attempt.state for attempt in runtime.ledger.attempts("revenue")] == [AttemptState.FAILED], "not tried again"
    assert runtime.revenue == []
    assert runtime.run(runtime.declare(revenue_task())).outcome is Outcome.PUBLISHED


def test_a_signal_inside_a_probe_is_not_swallowed(runtime: RuntimeSetup) -> None:
    def fails(_result: Any, _key: str) -> None:
        raise ValueError("nobody knows whether it arrived")

    def asks(_key: str) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    runtime.context = replace(runtime.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    effects = (call(fails, keyed=False, name="tell", probe=asks),)
    declared = runtime.declare(replace(revenue_task(), effects=effects))
    with handled_by(exits), pytest.raises(SystemExit):
        runtime.run(declared)
        runtime.run(declared)
    assert not runtime.ledger.open_attempts()


def test_a_signal_inside_a_pipeline_file_is_not_swallowed(tmp_path: Path) -> None:
    file = tmp_path / "pipelines_told" / "told_to_end.py"
    file.parent.mkdir()
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    with handled_by(exits), pytest.raises(SystemExit) as ended:
        discover("p", tmp_path, [file.parent])
    assert ended.value.code == 7


def test_a_task_that_exits_by_itself_has_failed_although_a_handler_exits_too(runtime: RuntimeSetup) -> None:
    def leaves(orders: Rows) -> Rows:
        sys.exit(0)

    with handled_by(exits), pytest.raises(UserCodeError, match="SystemExit: 0"):
        runtime.run(runtime.declare(revenue_task(leaves)))
    assert not runtime.ledger.open_attempts()


def test_a_second_signal_to_a_callers_handler_breaks_into_the_commit_and_its_attempt_stays_open(
    runtime: RuntimeSetup,
) -> None:
    def twice_over(passed: Any) -> None:
        if passed is Point.AFTER_COMMIT:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

    declared = runtime.declare(revenue_task())
    with handled_by(exits), armed(twice_over), pytest.raises(SystemExit) as ended:
        runtime.run(declared)
    assert ended.value.code == 7
    assert isinstance(ended.value.__context__, BrokenOff)
    assert runtime.ledger.attempts("revenue")[0].state is AttemptState.PUBLISHING, "only the table can say how it ended"
    assert runtime.run(declared).outcome is Outcome.ALREADY, "its slice is free"


def stops_once(number: int, frame: Any) -> None:
    """A second signal must kill at once."""
    assert frame is not None
    signal.signal(number, signal.SIG_DFL)
    raise Stopped


def forgets_and_stops_once(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
    del number, frame
    raise TimeoutError("it was to end by now")


HELD = {"stays": Worker().stops, "removes itself": stops_once, "lets nothing be seen": forgets_and_stops_once}


@pytest.mark.parametrize("held", ["the commit", "the record of it"])
@pytest.mark.parametrize("handler", HELD)
def test_a_signal_that_waited_for_a_commit_ends_the_run_also_if_its_handler_removes_itself(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch, handler: str, held: str
) -> None:
    def told(passed: Any) -> None:
        if passed is Point.AFTER_COMMIT:
            os.kill(os.getpid(), signal.SIGTERM)

    def told_while_recording(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        publish(*args, **kwargs)

    publish, declared = runtime.ledger.publish, runtime.declare(revenue_task())
    if held == "the record of it":
        monkeypatch.setattr(runtime.ledger, "publish", told_while_recording)
    meanwhile = armed(told if held == "the commit" else lambda _: None)
    with handled_by(HELD[handler]), meanwhile, pytest.raises((Stopped, TimeoutError)):
        runtime.run(declared)
    assert [attempt.state for attempt in runtime.ledger.attempts("revenue")] == [AttemptState.PUBLISHED]
    assert len(runtime.revenue) == 1, "what was held is done"


@pytest.mark.parametrize("raised", [SystemExit, Stopped, OwnInterrupt])
def test_who_is_stopped_by_a_callers_handler_while_it_claims_holds_nothing(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    claim, declared = runtime.ledger.claim, runtime.declare(revenue_task())

    def stopped_right_after(*args: Any, **kwargs: Any) -> Any:
        claim(*args, **kwargs)
        raise raised

    monkeypatch.setattr(runtime.ledger, "claim", stopped_right_after)
    with pytest.raises(raised):
        runtime.run(declared)
    monkeypatch.undo()
    assert runtime.run(declared).outcome is Outcome.PUBLISHED


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("handler", ["a function", "a bound method"])
def test_a_backfill_that_a_callers_handler_ends_gives_its_batch_back(
    runtime: RuntimeSetup, handler: str, parallel: int
) -> None:
    sent = threading.Lock()

    def told_once(orders: Rows) -> Rows:
        """Of two threads one: a second signal would come when its handler is gone again."""
        return told_to_end(orders) if sent.acquire(blocking=False) else summed(orders)

    declared: Task = revenue_task(told_once, policy=Policy(retry=Retry(attempts=1)))
    runtime.declare(declared)
    record, _ = start(runtime.context, BackfillRequest("revenue", "2026-06-09", "2026-06-10", batch="off"))
    handle, raised = HANDLERS[handler]
    stop = Stop.never()
    with handled_by(handle), pytest.raises(raised):
        work(runtime.context, record.name, lambda _: None, stop, parallel)
    if parallel > 1:
        assert stop(), "its threads take nothing more"
        return
    assert not runtime.ledger.open_attempts()
    left = runtime.ledger.backfills.record(record.name)
    assert left is not None
    assert left.slices == {BatchState.PENDING: 2}


def test_a_simulated_kill_is_still_tidied_up_by_nobody(runtime: RuntimeSetup) -> None:
    def kill(orders: Rows) -> Rows:
        raise Crash

    with pytest.raises(Crash):
        runtime.run(runtime.declare(revenue_task(kill)))
    assert len(runtime.ledger.open_attempts()) == 1
