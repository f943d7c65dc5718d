"""How a run ends before its time: at a named place, or at any call of a function of twice."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import twice
from twice.core.failure.failpoints import Point, SendPoint, armed, crash_at

from .steps import AtCall, AtPoint, Death, How

SOURCES = str(Path(twice.__file__).parent)


@contextmanager
def dying(death: Death | None, ended: list[bool]) -> Iterator[None]:
    """`ended` has an entry once it has died; it may end before it comes to that place."""
    match death:
        case None:
            yield
        case AtCall(number):
            with _interrupted_at(number, ended):
                yield
        case AtPoint(point, how):
            with armed(_ending(point, how, ended)), _terminated():
                yield


def _ending(point: Point, how: How, ended: list[bool]) -> Callable[[Point | SendPoint], None]:
    def act(passed: Point | SendPoint) -> None:
        if passed is not point or ended:
            return
        ended.append(True)
        match how:
            case How.KILL:
                crash_at(point)(passed)
            case How.ERROR:
                raise RuntimeError(f"something went wrong at {point.value}")
            case How.CTRL_C:
                raise KeyboardInterrupt
            case How.SIGTERM:
                os.kill(os.getpid(), signal.SIGTERM)

    return act


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM as the command line gets it."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _interrupted_at(number: int, ended: list[bool]) -> Iterator[None]:
    """Ctrl-C when the nth function of twice is entered: only of this thread, and only once."""
    left = number

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                ended.append(True)
                raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
