"""Watching what a plain job does in this process: Python's audit events, of all its threads.

There is no way to remove an audit hook, so one is set at the first proof and calls whoever listens. What leaves
the process is not stopped here but by `hook`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

Listener = Callable[[str, tuple[Any, ...]], None]
"""Gets every audit event. What it raises is raised there."""

_LISTENERS: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """In every thread of this process: the job may start its own."""
    _install()
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


@cache
def _install() -> None:
    def notify(event: str, args: tuple[Any, ...]) -> None:
        for listener in _LISTENERS:
            listener(event, args)

    sys.addaudithook(notify)
