"""What tables show that a ledger has missed, has forgotten, or has under no table that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twice.core.table.token import Intention


@dataclass(frozen=True)
class FoundPublish:
    """A publish that a target shows and a ledger has missed. `rows` and `fingerprint` are known
    where an attempt of that ledger made it."""

    label: str
    generation: int
    attempt: str | None = None
    intention: Intention | None = None
    version: int | None = None
    rows: int | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Shown:
    """What a table shows of records from before the ledger knew environments: the attempts that its commits name, the
    generation of each slice it holds, and by slice the attempt that its newest commit names, where the log has it."""

    attempts: frozenset[str]
    generations: Mapping[str, int]
    newest: Mapping[str, str]


@dataclass(frozen=True)
class Unassigned:
    """Old records under a task's name that no table has shown to be its own. `unsent` effects were never sent, and
    are not."""

    task: str
    attempts: int = 0
    slices: int = 0
    effects: int = 0
    unsent: int = 0
    batches: int = 0
