"""The owner of records: one ledger serves many projects and environments; a task's records belong to one of each.

A task is (project, environment, table, name). The environment is the user's own name for it, else the location of the
tables. The table's id in its format is no part of it: a table that was recreated is still the same one, and no effect
of it is sent twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

MARK = "#"
"""Between a task's name and the digest of its owner. No task's name has it; records from before owners were known lack
it."""


@dataclass(frozen=True)
class TaskTable:
    """The table that a task writes. `known_as`: what its environment is called outside this ledger, in the keys of
    effects; `formerly`: what the same environment was called here before it got its name. `names`: every name of a
    task that was renamed, the first one first; `kept_as`: under which of them the ledger keeps its records."""

    environment: str
    table: str = ""
    known_as: str = ""
    formerly: tuple[str, ...] = field(default=(), repr=False)
    names: tuple[str, ...] = ()
    kept_as: str = ""


@dataclass(frozen=True)
class RecordOwner:
    """The project and environment that a ledger is opened for. `tables` by declared task; a task that is not declared
    (any more) belongs to `environment`. `retired`: names of environments that must not stay in a ledger, since a secret
    is in them, and what each is called now."""

    project: str = ""
    environment: str = ""
    tables: Mapping[str, TaskTable] = field(default_factory=dict)
    retired: Mapping[str, str] = field(default_factory=dict, repr=False)

    def table_of(self, task: str) -> TaskTable:
        return self.tables.get(task) or TaskTable(self.environment)

    def key(self, task: str) -> str:
        """The task in the ledger's rows."""
        table = self.table_of(task)
        return key_at(self.project, table, table.kept_as or task)

    def names_of(self, task: str) -> tuple[str, ...]:
        """Every name that records of the task may be kept under, the first one first."""
        return self.table_of(task).names or (task,)

    def task_of(self, key: str) -> str:
        """The task of a row as it is declared now, whatever its name was when the row was written."""
        name = name_of(key)
        return self._now.get(name, name)

    @cached_property
    def _now(self) -> Mapping[str, str]:
        return {name: task for task, table in self.tables.items() for name in table.names if name not in self.tables}

    @property
    def environments(self) -> tuple[str, ...]:
        return tuple(sorted({self.environment, *(table.environment for table in self.tables.values())}))

    def effect_owner(self, task: str) -> tuple[str, str, str]:
        """For the key of an effect: it must differ from the same task's in any other project, environment or table."""
        table = self.table_of(task)
        return self.project, table.known_as or table.environment, table.table


def key_at(project: str, table: TaskTable, task: str) -> str:
    return f"{task}{MARK}{_digest(project, table.environment, table.table)}"


def backfill_key(name: str, task_key: str) -> str:
    """A backfill of this task in the ledger's rows: its name is free in every other environment."""
    return f"{name}{MARK}{task_key.rpartition(MARK)[2]}"


def name_of(key: str) -> str:
    """The task's or backfill's own name."""
    name, mark, _ = key.rpartition(MARK)
    return name if mark else key


def _digest(*words: str) -> str:
    # As JSON, so that no two lists of words run together.
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
