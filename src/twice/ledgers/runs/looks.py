"""Looks at what tasks have published: of each task the last one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    delete,
    exists,
    insert,
    select,
    tuple_,
)

from twice.core.ledger.look import Look, SeenSlice
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.schema import NAME, UtcTime, attempts, insert_or, metadata, runs
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs.prune_attempts import PART

looks = Table(
    "twice_looks",
    metadata,
    Column("task", NAME, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("code_hash", Text, nullable=False),
    Column("slices", BigInteger, nullable=False),
    PrimaryKeyConstraint("task", name="twice_looks_pk"),
    CheckConstraint("task <> '' AND code_hash <> ''", name="twice_looks_named"),
)

seen = Table(
    "twice_seen",
    metadata,
    Column("task", NAME, nullable=False),
    Column("label", NAME, nullable=False),
    Column("status", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("attempt", Text),
    Column("last_attempt", Text),
    PrimaryKeyConstraint("task", "label", name="twice_seen_pk"),
    CheckConstraint("label <> ''", name="twice_seen_named"),
    sqlite_with_rowid=False,
)


class SqlLooks(Records):
    """The last look at each task."""

    @retrying_outages
    def record_look(self, look: Look) -> None:
        """Keep it in the place of the one before, unless that began later. Dying here leaves the one before, whole. A
        second call changes nothing."""
        with self._writing() as connection:
            self._own.register(connection, [look.task])
            _record(connection, self._own.key(look.task), look)

    @retrying_outages
    def looks(self) -> Mapping[str, Look]:
        """The last look at each task, by task. Also what it found of slices that were tried since."""
        with self._reading() as connection:
            return _read(connection, self._own)


def _record(connection: Connection, key: str, look: Look) -> None:
    """Two at once: the row of the look is locked first, so that the second finds all of the first."""
    put = insert_or(connection, looks).values(task=key, at=look.at, code_hash=look.code, slices=look.slices)
    newer = put.on_conflict_do_update(
        index_elements=[looks.c.task],
        set_={name: put.excluded[name] for name in ("at", "code_hash", "slices")},
        where=looks.c.at <= put.excluded.at,
    ).returning(looks.c.task)
    if connection.execute(newer).one_or_none() is None:
        return
    connection.execute(delete(seen).where(seen.c.task == key))
    if look.seen:
        connection.execute(insert(seen), [{"task": key, **vars(each)} for each in look.seen])


def _read(connection: Connection, own: OwnRows) -> Mapping[str, Look]:
    found: dict[str, list[SeenSlice]] = defaultdict(list)
    mine = select(seen).where(own.among(seen.c.task, None)).order_by(seen.c.task, seen.c.label)
    for row in connection.execute(mine):
        _, *of_slice = row
        found[row.task].append(SeenSlice(*of_slice))
    rows = connection.execute(select(looks).where(own.among(looks.c.task, None)).order_by(looks.c.task)).all()
    return {
        (name := own.owner.task_of(row.task)): Look(name, row.at, row.code_hash, row.slices, tuple(found[row.task]))
        for row in rows
    }


def prune_looks(connection: Connection, own: OwnRows, before: datetime) -> int:
    """What old looks found of slices that were tried since, or are not published any more: it counts for nothing. The
    looks themselves stay: there is one of each task."""
    old = select(looks.c.task).where(own.of_any_table(looks.c.task), looks.c.at < before)
    over = select(seen.c.task, seen.c.label).where(seen.c.task.in_(old), ~_still_about()).limit(PART)
    keys = [tuple(row) for row in connection.execute(over)]
    return _delete_seen(connection, tuple_(seen.c.task, seen.c.label).in_(keys)) if keys else 0


def _still_about() -> ColumnElement[bool]:
    """As `SeenSlice.is_about` has it."""
    last = select(attempts.c.id).where(attempts.c.fence == runs.c.last_fence).scalar_subquery()
    same = (runs.c.generation == seen.c.generation, runs.c.attempt.is_not_distinct_from(seen.c.attempt))
    of_slice = (runs.c.task == seen.c.task, runs.c.label == seen.c.label)
    return exists().where(and_(*of_slice, *same, last.is_not_distinct_from(seen.c.last_attempt)))


def drop_looks(connection: Connection, keys: Sequence[str]) -> int:
    """Of an environment whose tasks have these keys."""
    some = select(seen.c.task, seen.c.label).where(seen.c.task.in_(keys)).limit(PART)
    found = [tuple(row) for row in connection.execute(some)]
    if found:
        return _delete_seen(connection, tuple_(seen.c.task, seen.c.label).in_(found))
    return connection.execute(delete(looks).where(looks.c.task.in_(keys))).rowcount


def move_looks(connection: Connection, old: str, new: str) -> None:
    """To another key of the same task. Where both have a look, the newer one stays, as when it is recorded. A second
    call finds nothing to move. Dying here has moved everything or nothing."""
    both = select(looks.c.task, looks.c.at).where(looks.c.task.in_((old, new))).order_by(looks.c.task)
    at = {row.task: row.at for row in connection.execute(both.with_for_update())}
    if old in at and new in at:
        older = new if at[new] < at[old] else old
        for table in (seen, looks):
            connection.execute(delete(table).where(table.c.task == older))
    for table in (looks, seen):
        connection.execute(table.update().where(table.c.task == old).values(task=new))


def _delete_seen(connection: Connection, which: ColumnElement[bool]) -> int:
    return connection.execute(delete(seen).where(which)).rowcount
