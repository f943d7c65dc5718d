"""The lock on local file systems, seen from another process."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contracts import upsert_suite as upserts
from tests.contracts.delta_harness import DeltaHarness
from tests.contracts.target_suite import COLUMNS, DAY, REVENUE, commit, plan_of, prepare, publish, sale, together

from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ports import Landed
from twice.targets.delta import lock
from twice.targets.delta.public import merge
from twice.targets.delta.write.row_diff import compared

ROWS = [sale("2026-06-09", "eu", "1.00")]
TRY = "import fcntl,sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
HOLD = TRY + "; print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def harness(spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, internal=True)


def lock_file(harness: DeltaHarness) -> Path:
    return Path(harness.locate(REVENUE)) / "_twice" / "lock"


def another_process_can_take_it(harness: DeltaHarness) -> bool:
    return _can_take(lock_file(harness))


def _can_take(file: Path) -> bool:
    command = [sys.executable, "-c", TRY, str(file)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def held_by_another_process(harness: DeltaHarness) -> Iterator[None]:
    command = [sys.executable, "-c", HOLD, str(lock_file(harness))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.communicate()


class Impatient(Exception):
    pass


def impatient(harness: DeltaHarness, seconds: float = 0.2) -> Any:
    """A target that waits for a lock no longer than a test can."""

    def waiting(_: str, waited: float) -> None:
        if waited > seconds:
            raise Impatient

    target: Any = harness.target()
    target._waiting = waiting
    return target


def test_the_lock_is_held_while_a_commit_is_under_way_and_released_after(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    seen: list[bool] = []
    with armed(
        lambda point: seen.append(another_process_can_take_it(harness)) if point is not Point.IN_STAGE else None
    ):
        publish(harness, target, ROWS, DAY, attempt="a")
    assert seen == [False, False]  # before and after the commit itself
    assert another_process_can_take_it(harness)


def test_a_thread_that_only_looks_does_not_take_the_lock_from_its_holder(harness: DeltaHarness) -> None:
    target, other = harness.target(), impatient(harness)
    prepare(target)
    seen: list[Any] = []

    def look(point: Point | SendPoint) -> None:
        if point is Point.BEFORE_COMMIT:
            # POSIX drops a process's locks on a file when it closes any descriptor of it.
            seen.extend(together(lambda: other.discard(REVENUE, "x", [DAY])))
            seen.append(another_process_can_take_it(harness))

    with armed(look):
        assert isinstance(publish(harness, target, ROWS, DAY, attempt="a"), Landed)
    assert isinstance(seen[0], Impatient)
    assert seen[1] is False


def test_an_interrupt_in_the_middle_of_taking_the_lock_leaves_it_free(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    target: Any = harness.target()
    prepare(target)
    real = lock._channel

    class Channel:
        """Ctrl-C arrives when the JVM has the lock, and Python does not know it yet."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def tryLock(self) -> Any:  # noqa: N802 - Java's name
            held = self.inner.tryLock()
            signal.raise_signal(signal.SIGINT)
            return held

    def channel(*args: Any) -> Any:
        inner, identity = real(*args)
        return Channel(inner), identity

    monkeypatch.setattr(lock, "_channel", channel)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a process of its own
    try:
        with pytest.raises(KeyboardInterrupt), lock.locked(target._session._jvm, harness.locate(REVENUE)):
            raise AssertionError("the lock was held in spite of the interrupt")
    finally:
        signal.signal(signal.SIGINT, before)
    assert another_process_can_take_it(harness)


def test_a_lock_held_elsewhere_is_waited_for_as_long_as_its_holder_lives(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A slow neighbour is no failure: whoever waits says so now and then, and goes on when the other ends."""
    monkeypatch.setattr("twice.targets.delta.lock._FIRST_WORD_S", 0.05)
    target = harness.target()
    prepare(target)
    staged = target.stage(REVENUE, harness.frame(target, COLUMNS, ROWS), plan_of(DAY), "a")
    ends: list[Any] = []
    ours = threading.Thread(target=lambda: ends.append(commit(target, staged, {staged.plan.token_names[0]: 0})))
    with held_by_another_process(harness):
        ours.start()
        while len(caplog.records) < 3:  # it goes on waiting, whatever it has logged
            ours.join(0.05)
            assert ours.is_alive()
    ours.join(60)
    assert isinstance(ends[0], Landed)
    message = caplog.records[0].getMessage()
    assert str(lock_file(harness)) in message
    assert re.search(r"which process \d+ on \S+ holds", message), "who took it last is named"


def test_the_public_path_judges_a_merge_before_it_takes_the_lock(spark: Any, tmp_path: Path) -> None:
    harness = DeltaHarness(spark, tmp_path, internal=False)
    target = impatient(harness, 0)
    upserts.prepare(target)
    staged = upserts.stage(harness, target, [(1, "new", 10)], upserts.NEWEST, "a")
    judging: list[bool] = []

    def seen(*given: Any) -> Any:
        judging.append(_can_take(Path(harness.locate(upserts.ORDERS)) / "_twice" / "lock"))
        return compared(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "compared", seen)
        assert isinstance(upserts.commit(target, staged), Landed)
    assert judging == [True]


def test_a_table_made_again_is_locked_by_its_new_file(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, ROWS, DAY, attempt="a")
    shutil.rmtree(harness.locate(REVENUE))
    prepare(target)
    seen: list[bool] = []
    with armed(
        lambda point: seen.append(another_process_can_take_it(harness)) if point is not Point.IN_STAGE else None
    ):
        publish(harness, target, ROWS, DAY, attempt="b")
    assert seen == [False, False]
