"""Whose records are these? One ledger serves many projects and environments; a task's records belong to one of each.

A task is (project, environment, table, name). The environment is the user's own word for it, else the place where the
tables lie. The table's id in its format is no part of it: a table that was made anew is still the same one, and nothing
is said of it twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

MARK = "#"
"""Stands between a task's name and its owner. No task's name has it; records from before owners were known lack it."""


@dataclass(frozen=True)
class Place:
    """Where a task writes. `known_as`: what the environment is called outside this ledger, in the keys of effects;
    `formerly`: what the same place was called here before it was given a name."""

    environment: str
    table: str = ""
    known_as: str = ""
    formerly: tuple[str, ...] = ()


@dataclass(frozen=True)
class Home:
    """The project and environment that a ledger is opened for. `places` by declared task; a task that is not declared
    (any more) belongs to `environment`."""

    project: str = ""
    environment: str = ""
    places: Mapping[str, Place] = field(default_factory=dict)

    def place(self, task: str) -> Place:
        return self.places.get(task) or Place(self.environment)

    def key(self, task: str) -> str:
        """What stands in the ledger for this task."""
        return key_at(self.project, self.place(task), task)

    @property
    def environments(self) -> tuple[str, ...]:
        return tuple(sorted({self.environment, *(place.environment for place in self.places.values())}))

    def whose(self, task: str) -> tuple[str, str, str]:
        """For the key of an effect: it must differ from the same task's in any other project, environment or table."""
        place = self.place(task)
        return self.project, place.known_as or place.environment, place.table


def key_at(project: str, place: Place, task: str) -> str:
    return f"{task}{MARK}{_digest(project, place.environment, place.table)}"


def backfill_key(name: str, task_key: str) -> str:
    """What stands in the ledger for a backfill of this task: its name is free in every other environment."""
    return f"{name}{MARK}{task_key.rpartition(MARK)[2]}"


def name_of(key: str) -> str:
    """The task's or backfill's own name."""
    name, mark, _ = key.rpartition(MARK)
    return name if mark else key


def _digest(*words: str) -> str:
    # As JSON, so that no two lists of words run together.
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
