"""The table behind inboxes: which messages were handled, and a hash of their bodies."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, Column, Connection, MetaData, PrimaryKeyConstraint, Table, Text, delete, select

from twice.ledgers.database.schema import NAME, UtcTime, insert_or

metadata = MetaData()

messages = Table(
    "twice_messages",
    metadata,
    Column("inbox", NAME, nullable=False),
    Column("id", NAME, nullable=False),
    Column("body_hash", Text, nullable=False),
    Column("handled", UtcTime, nullable=False),
    PrimaryKeyConstraint("inbox", "id", name="twice_messages_pk"),
    CheckConstraint("inbox <> '' AND id <> ''", name="twice_messages_named"),
    sqlite_with_rowid=False,
)


def remember(connection: Connection, inbox: str, id_: str, body_hash: str, now: datetime) -> str | None:
    """Write that the message is handled; None. If it is written already: the hash it was handled with.

    While another transaction is handling it, this waits for its end: then it is handled, or it is ours. The row counts
    only once the caller's transaction commits.
    """
    row = {"inbox": inbox, "id": id_, "body_hash": body_hash, "handled": now}
    adding = insert_or(connection, messages).on_conflict_do_nothing(index_elements=[messages.c.inbox, messages.c.id])
    if connection.execute(adding.returning(messages.c.id), row).first() is not None:
        return None
    known = select(messages.c.body_hash).where(messages.c.inbox == inbox, messages.c.id == id_)
    return str(connection.execute(known).scalar_one())


def forget(connection: Connection, inbox: str, before: datetime) -> int:
    """Messages that were handled before then; how many."""
    old = (messages.c.inbox == inbox, messages.c.handled < before)
    return connection.execute(delete(messages).where(*old)).rowcount
