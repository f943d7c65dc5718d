"""Progress: what a command is doing, for a person who waits for it. No result depends on it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

STEPS = ("plan", "claim", "look", "compute", "stage", "audit", "publish")
"""The steps of one run, in their order."""


class Progress(Protocol):
    """Several threads call it, each about itself. It returns at once: nobody who works waits for who watches."""

    def begins(self, step: str, where: str = "", detail: str = "") -> None:
        """This thread goes on to a step: one of STEPS, or what it does in a few words. `where` is the task with its
        slices, or what else it is done to."""

    def learns(self, fact: str) -> None:
        """Something about where this thread is now, true until it goes elsewhere: `12,345 rows`."""

    def counts(self, at: int, total: int, noun: str) -> None:
        """This thread is at the task, slice or scenario `at` of `total`."""

    def ends(self) -> None:
        """This thread has nothing more to do."""


class Silent:
    """Nobody watches."""

    def begins(self, step: str, where: str = "", detail: str = "") -> None: ...

    def learns(self, fact: str) -> None: ...

    def counts(self, at: int, total: int, noun: str) -> None: ...

    def ends(self) -> None: ...


SILENT = Silent()


@dataclass(frozen=True)
class Unfailing:
    """Whatever goes wrong in showing progress, the run goes on as if nobody watched."""

    watching: Progress

    def begins(self, step: str, where: str = "", detail: str = "") -> None:
        with suppress(Exception):
            self.watching.begins(step, where, detail)

    def learns(self, fact: str) -> None:
        with suppress(Exception):
            self.watching.learns(fact)

    def counts(self, at: int, total: int, noun: str) -> None:
        with suppress(Exception):
            self.watching.counts(at, total, noun)

    def ends(self) -> None:
        with suppress(Exception):
            self.watching.ends()


def unfailing(progress: Progress) -> Progress:
    return progress if isinstance(progress, Unfailing | Silent) else Unfailing(progress)
