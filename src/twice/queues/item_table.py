"""The table behind work queues. Every write is guarded by the state it comes from; each is one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    delete,
    func,
    literal,
    null,
    select,
    text,
    update,
)

from twice.ledgers.database.schema import NAME, UtcTime, insert_or
from twice.queues.item import Item, ItemStatus

metadata = MetaData()

items = Table(
    "twice_items",
    metadata,
    Column("queue", NAME, nullable=False),
    Column("id", NAME, nullable=False),
    Column("body", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("due", UtcTime, nullable=False),
    Column("began", UtcTime),
    Column("holder", Text),
    Column("error", Text),
    PrimaryKeyConstraint("queue", "id", name="twice_items_pk"),
    CheckConstraint("queue <> '' AND id <> ''", name="twice_items_named"),
    CheckConstraint("status IN ('pending', 'processing', 'done', 'failed')", name="twice_items_status"),
)

# As text, in the index and in the query: SQLite uses a partial index only where it sees the same words.
_UNDONE = text("status IN ('pending', 'processing')")
Index("twice_items_due", items.c.queue, items.c.due, sqlite_where=_UNDONE, postgresql_where=_UNDONE)


def put(connection: Connection, queue: str, id_: str, body: str, now: datetime) -> str | None:
    """Add an item; None. If it is there already, nothing changes: the body it has."""
    row = {"queue": queue, "id": id_, "body": body, "status": "pending", "attempts": 0, "fence": 0, "due": now}
    adding = insert_or(connection, items).on_conflict_do_nothing(index_elements=[items.c.queue, items.c.id])
    if connection.execute(adding.returning(items.c.id), row).first() is not None:
        return None
    return str(connection.execute(select(items.c.body).where(*_is(queue, id_))).scalar_one())


def claim(connection: Connection, queue: str, now: datetime, until: datetime, holder: str) -> Item | None:
    """The item that is due longest, pending or left behind by a worker whose lease ended; None if there is none.

    On PostgreSQL rows that another worker has locked are passed over; SQLite has one writer at a time. Dying after it
    leaves the item to whoever comes when the lease has ended.
    """
    is_due = (items.c.queue == queue, _UNDONE, items.c.due <= now)
    first = select(items.c.id).where(*is_due).order_by(items.c.due, items.c.id).limit(1)
    chosen = first.with_for_update(skip_locked=True).scalar_subquery()
    taking = (
        update(items)
        .where(items.c.queue == queue, items.c.id == chosen, *is_due)
        .values(
            status="processing",
            attempts=items.c.attempts + 1,
            fence=items.c.fence + 1,
            due=until,
            began=func.coalesce(items.c.began, literal(now, UtcTime)),
            holder=holder,
        )
    )
    return _item(connection.execute(taking.returning(items)).one_or_none())


def move(connection: Connection, queue: str, item: Item, status: ItemStatus, due: datetime, error: str | None) -> bool:
    """From processing, under the claim's own fence, to another status or a later lease. False: the claim is over.
    Dying before the commit leaves the item as it was."""
    moved = connection.execute(
        update(items).where(*_held(queue, item)).values(status=status.value, due=due, error=error)
    )
    return moved.rowcount == 1


def give_back(connection: Connection, queue: str, item: Item, now: datetime) -> bool:
    """Pending again, due now, as if this claim had not been: its attempt does not count, only the fence stays grown.
    False: the claim is over. Dying before the commit leaves the item as it was."""
    before = item.attempts - 1
    afresh = {"status": "pending", "due": now, "attempts": before, "began": items.c.began if before else null()}
    return connection.execute(update(items).where(*_held(queue, item)).values(afresh)).rowcount == 1


def revive(connection: Connection, queue: str, id_: str, now: datetime) -> bool:
    """A dead letter becomes pending again, with all its attempts; its fence stays grown. False if it is none."""
    dead = (*_is(queue, id_), items.c.status == "failed")
    afresh = {"status": "pending", "attempts": 0, "due": now, "began": null()}
    return connection.execute(update(items).where(*dead).values(afresh)).rowcount == 1


def forget(connection: Connection, queue: str, before: datetime) -> int:
    """Items that were done before then; how many."""
    done = (items.c.queue == queue, items.c.status == "done", items.c.due < before)
    return connection.execute(delete(items).where(*done)).rowcount


def read(connection: Connection, queue: str, id_: str) -> Item | None:
    return _item(connection.execute(select(items).where(*_is(queue, id_))).one_or_none())


def dead(connection: Connection, queue: str, limit: int) -> tuple[Item, ...]:
    chosen = select(items).where(items.c.queue == queue, items.c.status == "failed").order_by(items.c.due, items.c.id)
    return tuple(item for row in connection.execute(chosen.limit(limit)) if (item := _item(row)))


def counts(connection: Connection, queue: str) -> Mapping[ItemStatus, int]:
    grouped = select(items.c.status, func.count().label("size")).where(items.c.queue == queue).group_by(items.c.status)
    found = {row.status: row.size for row in connection.execute(grouped)}
    return {status: found.get(status.value, 0) for status in ItemStatus}


def _is(queue: str, id_: str) -> tuple[ColumnElement[bool], ...]:
    return (items.c.queue == queue, items.c.id == id_)


def _held(queue: str, item: Item) -> tuple[ColumnElement[bool], ...]:
    return (*_is(queue, item.id), items.c.status == "processing", items.c.fence == item.fence)


def _item(row: Any) -> Item | None:
    if row is None:
        return None
    return Item(
        row.id,
        json.loads(row.body),
        ItemStatus(row.status),
        row.attempts,
        row.fence,
        row.due,
        row.began,
        row.holder,
        row.error,
    )
