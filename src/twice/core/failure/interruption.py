"""Ctrl-C and SIGTERM in the middle of what must not be cut in two."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

from twice.core.failure import stopping
from twice.core.failure.failpoints import Crash
from twice.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEPTH = 30


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end. Like Ctrl-C in everything but the exit code."""


class BrokenOff(KeyboardInterrupt):
    """A second signal broke into what the first one had to wait for: it is not known how that ended."""


def being_handled() -> BaseException | None:
    """The error that somebody up the stack is handling right now. Python hangs it behind every error from here on."""
    return sys.exc_info()[1]


def behind(
    error: BaseException, *kinds: type[BaseException], before: BaseException | None = None
) -> BaseException | None:
    """What really happened, if it is one of these: what is released on the way out may fail in its turn, and then its
    error is the one that arrives. `before` is what was being handled when it began: that, and what lies behind it, is
    the caller's own."""
    return _first(error, lambda found: isinstance(found, kinds), before)


def _first(
    error: BaseException, wanted: Callable[[BaseException], bool], before: BaseException | None
) -> BaseException | None:
    found = error
    for _ in range(_DEPTH):
        if wanted(found):
            return found
        if found.__context__ is None or found.__context__ is before:
            return None
        found = found.__context__
    return None


def interruption(error: BaseException, before: BaseException | None = None) -> BaseException | None:
    """What asked the process to end, if that lies behind this error: Ctrl-C, SIGTERM, or what a caller's own signal
    handler raised, whatever its class. An error that arrives as no Exception asks for the same, whoever raised it; not
    a simulated kill. So does any error of a thread whose jobs were ended for it. `before`: see `behind`."""
    if not isinstance(error, Exception):
        return None if isinstance(error, Crash) else error
    found = _first(error, lambda found: isinstance(found, KeyboardInterrupt) or raised_by_handler(found), before)
    thread = stopping.current()
    return KeyboardInterrupt() if found is None and thread is not None and thread.cut else found


def asked_by(interrupt: BaseException) -> BaseException:
    """What the signal's handler raised, if that broke into something."""
    return interrupt.__cause__ or interrupt if isinstance(interrupt, BrokenOff) else interrupt


def raised_by_handler(error: BaseException) -> bool:
    """Whether a signal handler raised it: one that is installed, or one that has removed itself by now. Python calls a
    handler with the signal's number and the frame that it interrupted, which is its own caller; a signal that had to
    wait is handed on by `_hand_on`."""
    installed, trace = _handlers() | {_hand_on.__code__}, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in installed or _was_handed_its_caller(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _handlers() -> set[CodeType]:
    return {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number))) is not None}


def _code_of(handler: Any) -> CodeType | None:
    """Of a function, a method, a partial of one, or an object that can be called; None of what is not Python's."""
    while hasattr(handler, "func"):
        handler = handler.func
    called = handler if hasattr(handler, "__code__") else inspect.getattr_static(type(handler), "__call__", None)
    code = getattr(called, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _was_handed_its_caller(frame: FrameType) -> bool:
    """Whether its arguments are a signal's number and, right after it, its caller's frame."""
    given = inspect.getargvalues(frame)
    values = [given.locals.get(name) for name in given.args]
    values += given.locals.get(given.varargs, ()) if given.varargs else ()
    return any(
        isinstance(number, int) and number in signal.valid_signals() and handed is not None and handed is frame.f_back
        for number, handed in pairwise(values)
    )


def exit_code_of(interrupt: BaseException) -> int:
    """By convention 128 and the signal's number."""
    if isinstance(interrupt, Interrupted):
        return interrupt.exit_code
    return 128 + (signal.SIGTERM if isinstance(asked_by(interrupt), Terminated) else signal.SIGINT)


@contextmanager
def uninterrupted(at_once: Callable[[], None] | None = None) -> Iterator[None]:
    """A signal that would interrupt the block is handled when the block has ended. `at_once` is called when it comes,
    to make the block end sooner. A second one does not wait: it is a BrokenOff.

    Only for as long as the block lasts, only in the main thread (signals go nowhere else), and only where somebody
    handles the signal: what ends the process by the system's default ends it here too. In a thread that another one may
    ask to stop, that waits for the end of the block in the same way (`stopping`).
    """
    if threading.current_thread() is not threading.main_thread():
        thread = stopping.current()
        with nullcontext() if thread is None else thread.held(whole=at_once is None):
            yield
        return
    came: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            try:
                before[number](number, frame)
            except BaseException as interrupt:
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
            _hand_on(before[came[0]], came[0])


def _hand_on(handler: Callable[[int, FrameType | None], object], number: int) -> None:
    """As Python would have called it. What it raises is known by this very function in its trace."""
    handler(number, sys._getframe())
