"""Which rows are a ledger's own. Every query that reads or writes by task asks here.

The column `task` of every table holds a key: the task's name, `#`, and a digest of (project, environment, table). Here
is written what each key stands for. A key without `#` is a record from before: nobody has said yet whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    exists,
    or_,
    select,
)

from twice.core.home import Home, Place, backfill_key, key_at
from twice.ledgers.database.schema import NAME, attempts, insert_or, metadata

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


@dataclass(frozen=True)
class Owner:
    """The rows of one (project, environment)."""

    home: Home

    def key(self, task: str) -> str:
        return self.home.key(task)

    def of(self, column: ColumnElement[str], task: str | None) -> ColumnElement[bool]:
        """Rows of one task as it is declared now, or of every task of this environment: without what a declared task
        wrote into another table than it does now, since that says nothing of this one."""
        return column == self.key(task) if task is not None else self._owns(column, *self._declared())

    def among(self, column: ColumnElement[str], task: str | None) -> ColumnElement[bool]:
        """The same, for a table that lies in the order of its tasks: theirs are walked through, and no other's."""
        if task is not None:
            return column == self.key(task)
        return column.in_(select(_OWN.c.key).where(*self._mine(), *self._declared()))

    def of_any_table(self, column: ColumnElement[str], task: str | None = None) -> ColumnElement[bool]:
        """The same with what the tasks wrote into other tables before: an effect of that is still to be sent."""
        return self._owns(column) if task is None else self._owns(column, _OWN.c.name == task)

    def _owns(self, column: ColumnElement[str], *of: ColumnElement[bool]) -> ColumnElement[bool]:
        # Not `key IN (…)`: SQLite would walk through the whole history of each task to find the few open attempts.
        return exists().where(_OWN.c.key == column, *self._mine(), *of)

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return _OWN.c.project == self.home.project, _OWN.c.environment.in_(self.home.environments)

    def _declared(self) -> tuple[ColumnElement[bool], ...]:
        if not self.home.places:
            return ()
        now = _OWN.c.key.in_([self.key(name) for name in sorted(self.home.places)])
        return (or_(now, _OWN.c.name.not_in(sorted(self.home.places))),)

    def register(self, connection: Connection, names: Iterable[str]) -> None:
        """Say what the keys of these tasks stand for, first in the transaction that uses them. Those of declared tasks
        were said when the ledger was opened, and may be gone again: another process has given their place a name."""
        for name in sorted(set(names)):
            self.register_at(connection, name, self.home.place(name))

    def register_at(self, connection: Connection, name: str, place: Place) -> None:
        row = _row(self.home, name, place)
        connection.execute(insert_or(connection, tasks).on_conflict_do_nothing(), [row])

    def lock(self, connection: Connection) -> None:
        """One transaction at a time goes past here, of this environment. SQLite has its one writer already."""
        mine = select(tasks.c.key).where(self.of_any_table(tasks.c.key)).order_by(tasks.c.key)
        connection.execute(mine.with_for_update()).all()

    def backfills(self, name: str) -> list[str]:
        """The keys that a backfill of this name may have."""
        return sorted({backfill_key(name, self.key(task)) for task in ("", *self.home.places)})


def missing(connection: Connection, home: Home) -> tuple[set[str], dict[str, str]]:
    """Which declared tasks this ledger has not heard of; and the keys that the place of one had before it was named,
    each with the task that has it now. Also a key that is not registered: one that was claimed with while it was being
    given up has attempts all the same."""
    known = set(connection.execute(select(tasks.c.key).where(tasks.c.project == home.project)).scalars())
    unknown = {name for name in home.places if home.key(name) not in known}
    before = {
        key_at(home.project, Place(old, place.table), name): name
        for name, place in home.places.items()
        for old in place.formerly
    }
    if before:
        used = select(attempts.c.task).where(attempts.c.task.in_(sorted(before.keys() - known))).distinct()
        known |= set(connection.execute(used).scalars())
    return unknown, {key: name for key, name in before.items() if key in known}


def _row(home: Home, name: str, place: Place) -> dict[str, str]:
    return {
        "key": key_at(home.project, place, name),
        "project": home.project,
        "environment": place.environment,
        "name": name,
        "target": place.table,
    }
