"""Ways to end a run at a failpoint, from outside or inside, other than by a kill; and a check of its message."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Any, TypeVar

from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.failure.interruption import Terminated
from twice.errors import HOLDS, MAY_HOLD, UNCHANGED, Interrupted, TwiceError

T = TypeVar("T")


class Ending(str, Enum):
    ERROR = "an ordinary error"
    INTERRUPT = "KeyboardInterrupt raised on the spot"
    CTRL_C = "SIGINT"
    SIGTERM = "SIGTERM"
    EXIT = "SIGTERM, to a handler of the caller's own that exits"
    OWN = "SIGTERM, to a handler of the caller's own that raises what only the caller knows"


class Stopped(BaseException):
    """What an orchestrator's own handler may raise: neither an Exception nor a KeyboardInterrupt."""


def end_at(point: Point, ending: Ending, run: Callable[[], T]) -> T | BaseException:
    """Run until the point, end it there in this way, and give back how it ended: at most once."""
    spent = threading.Event()

    def act(passed: Point | SendPoint) -> None:
        if passed is not point or spent.is_set():
            return
        spent.set()
        if ending is Ending.ERROR:
            raise ValueError("a disk hiccup")
        if ending is Ending.INTERRUPT:
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGINT if ending is Ending.CTRL_C else signal.SIGTERM)

    with signals_raise(_RAISED.get(ending, Terminated)), armed(act):
        try:
            return run()
        except (Exception, KeyboardInterrupt, SystemExit, Stopped) as error:  # noqa: BLE001 - however it ended
            return error
        finally:
            assert spent.is_set(), f"{point} was never reached"


_RAISED: dict[Ending, type[BaseException]] = {Ending.EXIT: SystemExit, Ending.OWN: Stopped}


@contextmanager
def signals_raise(kind: type[BaseException] = Terminated) -> Iterator[None]:
    """SIGINT and SIGTERM raise, as on the command line; SIGTERM, if asked, as in a caller's process."""

    def terminated(_: int, __: FrameType | None) -> None:
        raise kind

    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def check_message(end: object, ending: Ending, holds: bool, landed: str = HOLDS, may_have: str = MAY_HOLD) -> None:
    """What the message claims of the table is true, in the words for what was to land; an interrupt stays one and
    names its signal. Callers whose own handler raised get just that."""
    if ending in _RAISED:
        assert type(end) is _RAISED[ending], repr(end)
        return
    if not isinstance(end, BaseException):
        assert holds
        assert ending is Ending.ERROR, "an interrupt is not swallowed"
        return
    if isinstance(end, Interrupted):
        assert end.exit_code == (143 if ending is Ending.SIGTERM else 130)
    error: Any = end.error if isinstance(end, Interrupted) else end
    assert isinstance(error, TwiceError), repr(end)
    assert isinstance(end, Interrupted) == (ending is not Ending.ERROR), repr(end)
    found = [sentence for sentence in (UNCHANGED, landed, may_have) if sentence in str(error)]
    assert len(found) == 1, str(error)
    assert found[0] != (UNCHANGED if holds else landed), str(error)
