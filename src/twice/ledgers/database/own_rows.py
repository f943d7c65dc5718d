"""Which rows are a ledger's own. Every query that reads or writes by task asks here.

The column `task` of every table holds a key: the task's name, `#`, and a digest of (project, environment, table). The
table `tasks` has what each key is made of. A key without `#` is a record from before: its owner is not known yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Insert,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    bindparam,
    exists,
    or_,
    select,
)

from twice.core.ledger.record_owner import RecordOwner, TaskTable, backfill_key, key_at
from twice.ledgers.database.schema import NAME, attempts, insert_in, metadata, runs

tasks = Table(
    "twice_tasks",
    metadata,
    Column("key", NAME, nullable=False),
    Column("project", NAME, nullable=False),
    Column("environment", NAME, nullable=False),
    Column("name", NAME, nullable=False),
    Column("target", NAME, nullable=False),
    # How many attempts from before it was given, once its table was asked which of them are its own; NULL until then.
    Column("assigned", BigInteger),
    PrimaryKeyConstraint("key", name="twice_tasks_pk"),
    UniqueConstraint("project", "environment", "name", "target", name="twice_tasks_named"),
)

_OWN = tasks.alias("own")

OF_TASK: BindParameter[str] = bindparam("of_task")
"""A task's key, in statements that are built once: to build one takes SQLAlchemy longer than the database takes to
answer it. Statements that are asked at every run stand beside the functions that ask them."""

OF_FENCE: BindParameter[int] = bindparam("of_fence")
"""An attempt's fence, in such statements."""


def in_any_table(column: ColumnElement[str], of_one_task: bool = False) -> ColumnElement[bool]:
    """`OwnRows.of_any_table` for such a statement: it is executed with `OwnRows.any_table` of one task, or of all."""
    given: dict[str, Any] = {"project": bindparam("project")}
    given |= {name: bindparam(name, expanding=True) for name in ("environments", "later_keys")}
    if of_one_task:
        return _one_in_any_table(column, first_name=bindparam("first_name"), **given)
    return _all_in_any_table(column, later_names=bindparam("later_names", expanding=True), **given)


def _one_in_any_table(
    column: ColumnElement[str], project: Any, environments: Any, first_name: Any, later_keys: Any
) -> ColumnElement[bool]:
    mine = (_OWN.c.project == project, _OWN.c.environment.in_(environments))
    return or_(exists().where(_OWN.c.key == column, *mine, _OWN.c.name == first_name), column.in_(later_keys))


def _all_in_any_table(
    column: ColumnElement[str], project: Any, environments: Any, later_names: Any, later_keys: Any
) -> ColumnElement[bool]:
    mine = (_OWN.c.project == project, _OWN.c.environment.in_(environments))
    return exists().where(_OWN.c.key == column, *mine, or_(_OWN.c.name.not_in(later_names), _OWN.c.key.in_(later_keys)))


@dataclass(frozen=True)
class OwnRows:
    """The rows of one (project, environment)."""

    owner: RecordOwner

    def key(self, task: str) -> str:
        return self.owner.key(task)

    def of(self, column: ColumnElement[str], task: str | None) -> ColumnElement[bool]:
        """Rows of one task as it is declared now, or of every task of this environment: without what a declared task
        wrote into another table than it does now, since that is not about this one."""
        return column == self.key(task) if task is not None else self._owns(column, *self._declared())

    def among(self, column: ColumnElement[str], task: str | None) -> ColumnElement[bool]:
        """The same, for a table that is stored in the order of its tasks: only their rows are walked through."""
        if task is not None:
            return column == self.key(task)
        return column.in_(select(_OWN.c.key).where(*self._mine(), *self._declared()))

    def of_any_table(self, column: ColumnElement[str], task: str | None = None) -> ColumnElement[bool]:
        """The same with what the tasks wrote into other tables before: an effect of that is still to be sent. A later
        name of a renamed task counts in its own table alone: elsewhere another task may have had it."""
        named = _all_in_any_table if task is None else _one_in_any_table
        return named(column, **self.any_table(task))

    def any_table(self, task: str | None = None) -> dict[str, Any]:
        """The values of `in_any_table`."""
        if task is None:
            return self._any_table
        mine = {"project": self.owner.project, "environments": self.owner.environments}
        return {**mine, "first_name": self.owner.names_of(task)[0], "later_keys": self.later_keys(task)}

    @cached_property
    def _any_table(self) -> dict[str, Any]:
        return {
            "project": self.owner.project,
            "environments": self.owner.environments,
            "later_names": sorted({name for each in self.owner.tables for name in self.owner.names_of(each)[1:]}),
            "later_keys": sorted({key for each in self.owner.tables for key in self.later_keys(each)}),
        }

    def later_keys(self, task: str) -> list[str]:
        """The keys of a renamed task's own table under its later names."""
        table = self.owner.table_of(task)
        return [key_at(self.owner.project, table, name) for name in self.owner.names_of(task)[1:]]

    def of_names(self, column: ColumnElement[str], names: Collection[str]) -> ColumnElement[bool]:
        """Rows that are kept under one of these names, of any table."""
        return self._owns(column, _OWN.c.name.in_(sorted(names)))

    def _owns(self, column: ColumnElement[str], *of: ColumnElement[bool]) -> ColumnElement[bool]:
        # Not `key IN (…)`: SQLite would walk through the whole history of each task to find the few open attempts.
        return exists().where(_OWN.c.key == column, *self._mine(), *of)

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return _OWN.c.project == self.owner.project, _OWN.c.environment.in_(self.owner.environments)

    def _declared(self) -> tuple[ColumnElement[bool], ...]:
        if not self.owner.tables:
            return ()
        now = _OWN.c.key.in_([self.key(name) for name in sorted(self.owner.tables)])
        names = {name for task in self.owner.tables for name in (task, *self.owner.names_of(task))}
        return (or_(now, _OWN.c.name.not_in(sorted(names))),)

    def register(self, connection: Connection, names: Iterable[str]) -> None:
        """Write what the keys of these tasks are made of, first in the transaction that uses them. Those of declared
        tasks were written when the ledger was opened, and may be gone again: another process has given their
        environment a name."""
        for name in sorted(set(names)):
            table = self.owner.table_of(name)
            self.register_at(connection, table.kept_as or name, table)

    def register_at(self, connection: Connection, name: str, table: TaskTable) -> None:
        connection.execute(_registering(connection.dialect.name), [_row(self.owner, name, table)])

    def lock(self, connection: Connection) -> None:
        """One transaction at a time goes past here, of this environment. SQLite has its one writer already."""
        mine = select(tasks.c.key).where(self.of_any_table(tasks.c.key)).order_by(tasks.c.key)
        connection.execute(mine.with_for_update()).all()

    def backfills(self, name: str) -> list[str]:
        """The keys that a backfill of this name may have."""
        return sorted({backfill_key(name, self.key(task)) for task in ("", *self.owner.tables)})


@cache
def _registering(dialect: str) -> Insert:
    return insert_in(dialect, tasks).on_conflict_do_nothing()


def unregistered(connection: Connection, owner: RecordOwner) -> tuple[set[str], dict[str, tuple[str, TaskTable]]]:
    """Which declared tasks this ledger does not have; and the keys that one had before its environment was named, each
    with its name and the table it is of now. Also a key that is not registered: one that was claimed with while it was
    being given up has attempts all the same. Of an environment whose name must not stay, every task."""
    known = set(connection.execute(select(tasks.c.key).where(tasks.c.project == owner.project)).scalars())
    unknown = {name for name in owner.tables if owner.key(name) not in known}
    before = {
        key_at(owner.project, TaskTable(old, table.table), name): (name, table)
        for task, table in owner.tables.items()
        for name in owner.names_of(task)
        for old in table.formerly
    }
    if before:
        used = select(attempts.c.task).where(attempts.c.task.in_(sorted(before.keys() - known))).distinct()
        known |= set(connection.execute(used).scalars())
    moving = {key: named for key, named in before.items() if key in known}
    return unknown, _retired(connection, owner) | moving


def _retired(connection: Connection, owner: RecordOwner) -> dict[str, tuple[str, TaskTable]]:
    if not owner.retired:
        return {}
    there = (tasks.c.project == owner.project, tasks.c.environment.in_(sorted(owner.retired)))
    rows = connection.execute(select(tasks).where(*there))
    return {row.key: (row.name, TaskTable(owner.retired[row.environment], row.target)) for row in rows}


def kept(connection: Connection, owner: RecordOwner) -> RecordOwner:
    """The owner, knowing under which of its names each renamed task's records are kept: the first name that has some,
    else its first. Reads only."""
    tables = {
        task: replace(table, kept_as=_kept_as(connection, owner.project, table)) if table.names else table
        for task, table in owner.tables.items()
    }
    return replace(owner, tables=tables)


def _kept_as(connection: Connection, project: str, table: TaskTable) -> str:
    for name in table.names:
        key = key_at(project, table, name)
        if any(
            connection.execute(select(exists().where(rows.c.task == key))).scalar_one() for rows in (attempts, runs)
        ):
            return name
    return table.names[0]


def _row(owner: RecordOwner, name: str, table: TaskTable) -> dict[str, str]:
    return {
        "key": key_at(owner.project, table, name),
        "project": owner.project,
        "environment": table.environment,
        "name": name,
        "target": table.table,
    }
