"""Named places where a run may be made to die. The crash tests walk every one of them.

Nothing is active unless `armed` says so (in process) or the command line arms one from TWICE_FAILPOINT.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class Point(str, Enum):
    """In the order a run meets them."""

    AFTER_PLAN = "after_plan"
    AFTER_CLAIM = "after_claim"
    AFTER_LOOK = "after_look"
    AFTER_COMPUTE = "after_compute"
    IN_STAGE = "in_stage"  # files are written and not recorded yet
    AFTER_STAGE = "after_stage"
    AFTER_AUDIT = "after_audit"
    PUBLISHING = "publishing"  # the intent is in the ledger; the target has not been asked yet
    BEFORE_COMMIT = "before_commit"  # locked and checked at the target; nothing has landed
    AFTER_COMMIT = "after_commit"  # landed; the reply has not reached the run
    AFTER_PUBLISH = "after_publish"  # read back; the ledger does not know yet
    AFTER_FINISH = "after_finish"


class SendPoint(str, Enum):
    """In the order an effect meets them, from the publish on record to the receipt on record."""

    RELEASED = "released"  # landed and on record; its text is not rendered yet
    RENDERED = "rendered"  # its text is stored
    BEFORE_SENDING = "before_sending"
    SENDING = "sending"  # committed as being sent; nothing has left
    LEAVING = "leaving"  # connected; the next thing that happens is the first byte
    ANSWERED = "answered"  # the receiver has answered; the ledger does not know yet
    RECORDED = "recorded"


class Crash(BaseException):
    """A kill, simulated in the process: no handler of ours may catch it and tidy up."""


Action = Callable[[Point | SendPoint], None]
_armed: ContextVar[Action | None] = ContextVar("twice_failpoints", default=None)


def hit(point: Point | SendPoint) -> None:
    """Pass a point. Does nothing unless a test armed it."""
    action = _armed.get()
    if action is not None:
        action(point)


@contextmanager
def armed(action: Action) -> Iterator[None]:
    token = _armed.set(action)
    try:
        yield
    finally:
        _armed.reset(token)


def crash_at(point: Point | SendPoint) -> Action:
    def act(passed: Point | SendPoint) -> None:
        if passed is point:
            raise Crash(point.value)

    return act


def kill_at(point: Point | SendPoint) -> Action:
    """SIGKILL to this process's whole group: Python and its JVM die at once, like a lost machine."""

    def act(passed: Point | SendPoint) -> None:
        if passed is point:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    return act
