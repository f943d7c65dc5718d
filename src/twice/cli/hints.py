"""Commands in what is printed, so that they can be run as they stand: with the project and the profile that this
command was given. Every hint on its way out passes through here: see tests/unit/cli/test_hints.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from twice.core.hints import Hints

_current: ContextVar[Hints] = ContextVar("twice_hints", default=Hints())  # noqa: B039 - it is frozen


@contextmanager
def hinting(hints: Hints) -> Iterator[None]:
    """In this thread, and while it is open."""
    token = _current.set(hints)
    try:
        yield
    finally:
        _current.reset(token)


def current_hints() -> Hints:
    """For what prints in another thread later."""
    return _current.get()


def runnable(text: str) -> str:
    """A hint, with the options of this command in each command of it."""
    return _current.get().in_text(text)
