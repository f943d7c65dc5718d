"""Commands in what is printed, so that they can be run as they stand: with the project and the profile that this
command was given. Every hint on its way out passes through here: see tests/unit/cli/test_hints.py."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OF_A_PROJECT = (
    "run|restate|retry|worker|plan|prove|graph|status|history|recover|gc|takeover"
    r"|(?:mark|ledger|config|effects) [a-z]+"
    r"|backfill \w[\w.-]*\b"  # a task, or one of its other words: options cannot stand before it
)
_COMMAND = re.compile(rf"\btwice (?:{_OF_A_PROJECT})(?![-\w])(?! --pro)")
_FIELDS = frozenset({"fix", "notes", "unclear"})
"""The fields of JSON that hold hints. Others hold data, which is given as it is."""


@dataclass(frozen=True)
class Hints:
    """`options` are put into each command; none where the shell's own surroundings say the same."""

    options: str = ""

    def in_text(self, text: str) -> str:
        return _COMMAND.sub(lambda found: f"{found[0]}{self.options}", text) if self.options else text

    def in_data(self, value: Any, field: str = "") -> Any:
        if not self.options:
            return value
        if isinstance(value, Mapping):
            return {name: self.in_data(inner, str(name)) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.in_data(inner, field) for inner in value]
        return self.in_text(value) if isinstance(value, str) and field in _FIELDS else value


_current: ContextVar[Hints] = ContextVar("twice_hints", default=Hints())  # noqa: B039 - it is frozen


def hints_for(folder: Path, profile: str | None) -> Hints:
    """A profile of the environment is left out: the shell keeps it."""
    words = [] if folder == Path() else ["--project", str(folder)]
    words += [] if profile is None or profile == os.environ.get("TWICE_PROFILE") else ["--profile", profile]
    return Hints("".join(f" {shlex.quote(word)}" for word in words))


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
