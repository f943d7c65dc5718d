"""A ledger whose server is away for a moment: calls are made again, for a bounded time.

A lost reply is no answer: the call may have happened. So only calls that may happen twice are made again, and
every method of the ledger is one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from twice.errors import LedgerOutOfReach

PATIENCE_SECONDS = 30.0
"""A server that restarts is back within this; a run of an hour must not fail for it."""

P = ParamSpec("P")
T = TypeVar("T")


class Outage:
    """One interruption, shared by all calls that meet it: together they wait no longer than the patience, so that a
    run whose ledger is gone for good does not wait once more at each step of its ending."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._began: float | None = None
        self._lock = threading.Lock()

    def outlive(self, call: Callable[[bool], T]) -> T:
        """Make the call until it gets an answer. Its argument: whether an earlier one may have happened."""
        again, pause = False, 0.05
        while True:
            try:
                answer = call(again)
            except LedgerOutOfReach:
                if self._too_long():
                    raise
                again = True
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
            else:
                self._began = None
                return answer

    def _too_long(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self._began = now if self._began is None else self._began
            return now - self._began >= self._patience


class Patient(Protocol):
    """Something that meets an outage once for all its methods."""

    @property
    def _outage(self) -> Outage: ...


Calls = TypeVar("Calls", bound=Patient)


def retrying_outages(method: Callable[Concatenate[Calls, P], T]) -> Callable[Concatenate[Calls, P], T]:
    """For methods that change nothing when they are called a second time."""

    @wraps(method)
    def made_again(self: Calls, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._outage.outlive(lambda _: method(self, *args, **kwargs))

    return made_again
