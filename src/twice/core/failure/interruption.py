"""Ctrl-C and SIGTERM in the middle of what must not be cut in two."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from twice.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEPTH = 30


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end. Like Ctrl-C in everything but the exit code."""


class BrokenOff(KeyboardInterrupt):
    """A second signal broke into what the first one had to wait for: nobody knows how that ended."""


def being_handled() -> BaseException | None:
    """The error that somebody up the stack is handling right now. Python hangs it behind every error from here on."""
    return sys.exc_info()[1]


def behind(
    error: BaseException, *kinds: type[BaseException], before: BaseException | None = None
) -> BaseException | None:
    """What really happened, if it is one of these: what is released on the way out may fail in its turn, and then its
    error is the one that arrives. `before` is what was being handled when it began: that, and what lies behind it, is
    the caller's own."""
    found = error
    for _ in range(_DEPTH):
        if isinstance(found, kinds):
            return found
        if found.__context__ is None or found.__context__ is before:
            return None
        found = found.__context__
    return None


def exit_code_of(interrupt: BaseException) -> int:
    """By convention 128 and the signal's number."""
    if isinstance(interrupt, Interrupted):
        return interrupt.exit_code
    asked = interrupt.__cause__ if isinstance(interrupt, BrokenOff) else interrupt
    return 128 + (signal.SIGTERM if isinstance(asked, Terminated) else signal.SIGINT)


@contextmanager
def uninterrupted(at_once: Callable[[], None] | None = None) -> Iterator[None]:
    """A signal that would interrupt the block is handled when the block has ended. `at_once` is called when it comes,
    to make the block end sooner. A second one does not wait: it is a BrokenOff.

    Only for as long as the block lasts, only in the main thread (signals go nowhere else), and only where somebody
    handles the signal: what ends the process by the system's default ends it here too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            try:
                before[number](number, frame)
            except KeyboardInterrupt as interrupt:
                raise BrokenOff from interrupt
        elif at_once is not None:
            at_once()

    before: dict[int, Callable[[int, FrameType | None], object]] = {
        number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))
    }
    for number in before:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if len(came) == 1:
            before[came[0]](came[0], None)
