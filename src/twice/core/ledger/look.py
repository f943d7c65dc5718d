"""A look at what a task has published, made without running it: when, and which slices were found not to be right.

It is kept until the next look. What it found of a slice counts only as long as nobody has tried that slice since: then
what became of that says more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from twice.core.ledger.record import RunRecord

SeenStatus = Literal["stale", "missing"]
"""`missing`: the ledger has a publish of it, and the table does not hold it."""


@dataclass(frozen=True)
class SeenSlice:
    """One published slice that was not right when it was looked at, and what the ledger knew of it then."""

    label: str
    status: SeenStatus
    why: str
    generation: int
    attempt: str | None
    last_attempt: str | None

    def is_about(self, run: RunRecord) -> bool:
        """Whether it is still the publish that was looked at, and nobody has tried the slice since."""
        seen = self.generation, self.attempt, self.last_attempt
        return seen == (run.generation, run.attempt, run.last_attempt)


@dataclass(frozen=True)
class Look:
    """At so many published slices of a task, at a time by the ledger's clock, which is when it began. `code`: the hash
    of the task's code then; of other code it says nothing. `seen`: the slices that were not right, by label."""

    task: str
    at: datetime
    code: str
    slices: int
    seen: tuple[SeenSlice, ...] = ()
