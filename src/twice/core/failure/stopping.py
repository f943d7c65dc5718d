"""Threads that another one may ask to stop. A signal reaches the main thread alone; what waits there for others hands
it on to them.

A thread that is asked handles it where the main thread would handle a signal: never in the middle of what must not be
cut in two (`uninterrupted`), else where it goes on to its next step, or at once where its jobs are ended for it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stoppable:
    """What one thread and those who may stop it share."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._held = self._whole = self._cut = False
        self._end_jobs: Callable[[], None] = lambda: None

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    @property
    def cut(self) -> bool:
        """Were its jobs ended? Whatever error it meets from then on is what being stopped looks like."""
        return self._cut

    @contextmanager
    def current(self, end_jobs: Callable[[], None]) -> Iterator[None]:
        """Of the thread that calls it. `end_jobs` ends what the thread has others do, and is called by whoever asks."""
        self._end_jobs = end_jobs
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def ask(self) -> None:
        """Ask again as long as the thread lives: it may have begun another job."""
        self._asked.set()
        with self._lock:
            if self._held and self._whole:
                return
            self._cut = True
            self._end_jobs()

    def check(self) -> None:
        """Raise KeyboardInterrupt if it was asked, as a signal's handler would. Not on the way out: what an error still
        has to record and to release is done."""
        if self.asked and not self._held and sys.exc_info()[1] is None:
            raise KeyboardInterrupt

    @contextmanager
    def held(self, whole: bool = True) -> Iterator[None]:
        """What is asked meanwhile is handled when the block has ended; `whole`: not even its jobs are ended. In another
        such block it adds nothing."""
        if self._held:
            yield
            return
        with self._lock:  # whoever is ending jobs has ended them by now
            self._held, self._whole = True, whole
        try:
            yield
        finally:
            self._held = False
            self.check()

    def pause(self, seconds: float) -> None:
        self._asked.wait(seconds)
        self.check()


_current: ContextVar[Stoppable | None] = ContextVar("twice_stoppable", default=None)
_waits: ContextVar[bool] = ContextVar("twice_waits_for_threads", default=False)


def current() -> Stoppable | None:
    """Of this thread; None in the main thread, and in every other that nobody asks."""
    return _current.get()


def check() -> None:
    """A place where a thread that was asked to stop does."""
    stoppable = current()
    if stoppable is not None:
        stoppable.check()


def pause(seconds: float) -> None:
    """Sleep; in a thread that is asked to stop, not to the end."""
    stoppable = current()
    if stoppable is None:
        time.sleep(seconds)
    else:
        stoppable.pause(seconds)


@contextmanager
def waiting_for_threads() -> Iterator[None]:
    """This thread only waits for others, and asks them itself: a signal's handler need not end their jobs."""
    token = _waits.set(True)
    try:
        yield
    finally:
        _waits.reset(token)


def waits_for_threads() -> bool:
    return _waits.get()
