"""A chain with several tasks at once: as one task after another, only sooner. However it ends, every slice is free."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup

from twice import Daily, Policy, Retry, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.failure.stopping import Stoppable, current, pause
from twice.core.ledger.record import AttemptState
from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.core.task import TableName, Task
from twice.errors import Interrupted
from twice.runtime.context import RunContext
from twice.runtime.run.chain import Selection, TaskEnd
from twice.runtime.run.run_many import run_all

DAY = "2026-06-09"
PATIENCE = 20.0
"""Longer than anything here takes; what waits so long has failed."""


def job(name: str, *sources: str, then: Callable[[], None] = lambda: None, policy: Policy | None = None) -> Task:
    """It copies the orders; what it does meanwhile is `then`."""

    def copied(orders: Any, **_: Any) -> Any:
        then()
        return orders

    inputs = {each.rpartition(".")[2]: read(each, by="order_date") for each in ("shop.orders", *sources)}
    scope = Daily("order_date", start="2026-01-01")
    return task(f"shop.{name}", name=name, scope=scope, write=replace_rows(), inputs=inputs, policy=policy)(copied)


def chain(context: RunContext, *tasks: Task, parallel: int = 2, told: Any = None) -> dict[str, TaskEnd]:
    known = replace(context, project=assemble("p", tasks))
    ends = run_all(known, DAY, None, told or (lambda _: None), Selection(None, parallel))
    return {end.task: end for end in ends}


def all_free(runtime: RuntimeSetup) -> bool:
    return not runtime.ledger.open_attempts()


def both_there() -> Callable[[], None]:
    """Waits until two have come; who is alone fails."""
    barrier = threading.Barrier(2, timeout=PATIENCE)
    return lambda: (barrier.wait(), None)[1]


def test_tasks_that_do_not_read_from_each_other_run_at_once(runtime: RuntimeSetup) -> None:
    meet = both_there()
    ends = chain(runtime.context, job("a", then=meet), job("b", then=meet))
    assert [end.results[0].outcome for end in ends.values()] == [Outcome.PUBLISHED] * 2


def test_a_task_waits_for_what_it_reads_from_however_many_run_at_once(runtime: RuntimeSetup) -> None:
    seen: list[str] = []
    tasks = [
        job("c", "shop.b", then=lambda: seen.append("c")),
        job("b", "shop.a", then=lambda: seen.append("b")),
        job("a", then=lambda: seen.append("a")),
    ]
    ends = chain(runtime.context, *tasks, parallel=8)
    assert list(dict.fromkeys(seen)) == ["a", "b", "c"]
    assert list(ends) == ["a", "b", "c"], "in the order of the graph"


def test_a_failed_task_stops_only_what_reads_from_it(runtime: RuntimeSetup) -> None:
    def fail() -> None:
        raise RuntimeError("no")

    told: list[str] = []
    tasks = [job("bad", then=fail), job("below", "shop.bad"), job("lower", "shop.below"), job("good"), job("far")]
    ends = chain(runtime.context, *tasks, told=lambda end: told.append(end.task))
    assert {name: bool(end.error) for name, end in ends.items() if not end.waits_for} == {
        "bad": True,
        "good": False,
        "far": False,
    }
    assert (ends["below"].waits_for, ends["lower"].waits_for) == ("bad", "below")
    assert sorted(told) == sorted(ends), "each was reported, once"


def test_what_is_not_chosen_is_neither_run_nor_waited_for(runtime: RuntimeSetup) -> None:
    tasks = [job("a"), job("b", "shop.a"), job("c", "shop.b")]
    chain(runtime.context, *tasks)
    known = replace(runtime.context, project=assemble("p", tasks))
    for parallel in (1, 2):
        ends = run_all(known, "2026-06-10", None, which=Selection((tasks[0], tasks[2]), parallel))
        assert [end.task for end in ends] == ["a", "c"]
        assert not any(end.error or end.waits_for for end in ends)


@contextmanager
def a_handler_that_raises() -> Iterator[None]:
    def handle(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def until_asked() -> None:
    """As long as nobody asks this thread to stop, or for ever."""
    pause(PATIENCE)
    raise AssertionError("nobody asked")


def test_ctrl_c_ends_every_run_in_order_and_frees_every_slice(runtime: RuntimeSetup) -> None:
    meet = both_there()

    def first() -> None:
        meet()
        os.kill(os.getpid(), signal.SIGINT)
        until_asked()

    def second() -> None:
        meet()
        until_asked()

    tasks = [job("a", then=first), job("b", then=second), job("c"), job("d", "shop.a")]
    with a_handler_that_raises(), pytest.raises(Interrupted) as ended:
        chain(runtime.context, *tasks)
    assert ended.value.exit_code == 130
    assert str(ended.value) == (
        "2 tasks were interrupted. a[2026-06-09]: The table is unchanged. b[2026-06-09]: The table is unchanged. "
        "Run it again: it will look first."
    )
    assert all_free(runtime)
    assert {a.state for name in ("a", "b") for a in runtime.ledger.attempts(name)} == {AttemptState.FAILED}
    assert not runtime.ledger.attempts("c"), "nothing more was begun"
    again = chain(runtime.context, job("a"), job("b"))
    assert [end.results[0].outcome for end in again.values()] == [Outcome.PUBLISHED] * 2


def test_who_publishes_when_it_is_stopped_publishes_to_the_end(runtime: RuntimeSetup) -> None:
    asked = threading.Event()

    def at(point: Any) -> None:
        mine = current()
        if point is Point.AFTER_COMMIT and mine is not None:
            os.kill(os.getpid(), signal.SIGINT)
            assert asked.wait(PATIENCE)

    class Watched(Stoppable):
        def ask(self) -> None:
            super().ask()
            asked.set()

    with pytest.MonkeyPatch.context() as patch, a_handler_that_raises(), armed(at):
        patch.setattr("twice.runtime.run.chain_in_threads.Stoppable", Watched)
        with pytest.raises(Interrupted) as ended:
            chain(runtime.context, job("a"), job("b", "shop.a"))
    assert str(ended.value).startswith("a[2026-06-09]: interrupted. The table holds the new rows.")
    assert [a.state for a in runtime.ledger.attempts("a")] == [AttemptState.PUBLISHED]
    assert runtime.target.published(TableName("shop.a"), ()).version == 1
    assert all_free(runtime)


def test_who_listens_to_nobody_is_stopped_before_its_next_step(runtime: RuntimeSetup) -> None:
    heard: list[bool] = []

    def deaf() -> None:
        mine = current()
        assert mine is not None
        os.kill(os.getpid(), signal.SIGINT)
        until = time.monotonic() + PATIENCE
        while not mine.asked and time.monotonic() < until:
            time.sleep(0.01)
        heard.append(mine.asked)

    with a_handler_that_raises(), pytest.raises(Interrupted):
        chain(runtime.context, job("a", then=deaf), job("b", "shop.a"))
    assert heard == [True]
    assert [a.state for a in runtime.ledger.attempts("a")] == [AttemptState.FAILED]
    assert runtime.target.published(TableName("shop.a"), ()).version is None
    assert all_free(runtime)


def test_a_pause_before_a_retry_ends_when_the_chain_does(runtime: RuntimeSetup) -> None:
    def fail() -> None:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise ConnectionError("away")

    context = replace(runtime.context, pause=pause)
    waiting = Policy(retry=Retry(attempts=3))
    with a_handler_that_raises(), pytest.raises(Interrupted):
        chain(context, job("a", then=fail, policy=waiting), job("b"))
    assert len(runtime.ledger.attempts("a")) == 1
    assert all_free(runtime)


def test_what_a_handler_of_the_callers_own_raises_is_what_the_caller_gets(runtime: RuntimeSetup) -> None:
    class Own(Exception):
        pass

    def handle(*_: Any) -> None:
        raise Own

    def stop_me() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        until_asked()

    before = signal.signal(signal.SIGTERM, handle)
    try:
        with pytest.raises(Own):
            chain(runtime.context, job("a", then=stop_me), job("b"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert all_free(runtime)


def test_what_a_handler_passes_over_stops_nothing(runtime: RuntimeSetup) -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        ends = chain(runtime.context, job("a", then=lambda: os.kill(os.getpid(), signal.SIGTERM)), job("b"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [end.results[0].outcome for end in ends.values()] == [Outcome.PUBLISHED] * 2


def test_asked_again_it_leaves_at_once(runtime: RuntimeSetup) -> None:
    """Who does not listen is left behind: the process ends."""
    let_go, left = threading.Event(), threading.Event()

    def deaf() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert let_go.wait(PATIENCE)
        left.set()

    with a_handler_that_raises(), pytest.raises(Interrupted) as ended:
        chain(runtime.context, job("a", then=deaf), job("b"))
    assert "interrupted again, before these had ended: a" in str(ended.value)
    assert not left.is_set()
    let_go.set()
    for thread in threading.enumerate():
        if thread.name.startswith("twice-task-"):
            thread.join(PATIENCE)


def test_a_kill_in_one_of_the_threads_is_one_of_the_chain(runtime: RuntimeSetup) -> None:
    """The failpoints of the caller hold in every thread."""
    with armed(crash_at(Point.AFTER_STAGE)), pytest.raises(Crash):
        chain(runtime.context, job("a"), job("b"))
    assert runtime.ledger.open_attempts(), "as after a kill, nothing was tidied up"


def test_what_an_interrupted_task_had_published_by_then_is_reported(runtime: RuntimeSetup) -> None:
    runs: list[str] = []

    def second_stops() -> None:
        runs.append("once")
        if len(runs) > 1:
            os.kill(os.getpid(), signal.SIGINT)
            until_asked()

    looking_back = job("a", then=second_stops)
    scope = Daily("order_date", start="2026-01-01", lookback=1)
    declared = task("shop.a", name="a", scope=scope, write=replace_rows(), inputs=looking_back.inputs)(
        looking_back.function
    )
    told: list[TaskEnd] = []
    with a_handler_that_raises(), pytest.raises(Interrupted):
        chain(runtime.context, declared, job("b"), told=told.append)
    (part,) = [end for end in told if end.task == "a"]
    assert [slice_.label for result in part.results for slice_ in result.slices] == ["2026-06-08"]
