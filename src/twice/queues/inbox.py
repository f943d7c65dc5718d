"""Messages that may arrive twice are handled once: for consumers of at-least-once queues and webhooks. The table
behind it holds which messages were handled, and a hash of their bodies.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import CheckConstraint, Column, Connection, MetaData, PrimaryKeyConstraint, Table, Text, delete, select

from twice.errors import BodyDiffers
from twice.ledgers.database.clock import database_time
from twice.ledgers.database.schema import NAME, UtcTime, insert_or
from twice.queues.handling import Handler, Handling, OnDatabase
from twice.queues.item import body_hash, checked_id

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


SILENCE = timedelta(minutes=5)
"""How long a handler may leave the database idle before it counts as dead (PostgreSQL)."""


class Inbox(OnDatabase):
    """Remembers which messages were handled, in the database that the handler writes to (`sqlite:///…` or
    `postgresql://…`): its work and the memory of it commit together. Acknowledge to the broker after `once` returned.
    """

    def __init__(self, url: str, name: str) -> None:
        self.name = checked_id(name, "the inbox's name")
        self._database = Handling(url, "inbox", metadata)

    def once(self, message_id: str, body: bytes | str, handle: Handler) -> bool:
        """Call `handle` with the transaction's connection, unless this message was handled before: then False.

        A handler that raises has done nothing; redelivery tries again. Two deliveries at once: one handles, the other
        waits for its end. The same id with another body is an error: it is another message, or a forged one.
        """
        checked_id(message_id, "the message's id")
        digest = body_hash(body)

        def is_new(connection: Connection) -> bool:
            known = _remember(connection, self.name, message_id, digest, database_time(connection))
            if known not in (None, digest):
                raise BodyDiffers(
                    "this message was handled before with another body",
                    where=f"inbox {self.name}[{message_id}]",
                    now="Nothing was done.",
                    fix="The sender uses an id twice, or the body is not the one that was sent: look at both.",
                )
            return known is None

        return self._database.outlive(lambda: self._database.together(is_new, handle, SILENCE))

    def forget(self, older_than: timedelta) -> int:
        """Forget messages that were handled longer ago; how many. One of them that is delivered again is handled again:
        keep them for longer than the sender redelivers. A second call finds none."""

        def old() -> int:
            with self._database.writing() as connection:
                return _forget(connection, self.name, database_time(connection) - older_than)

        return self._database.outlive(old)


def _remember(connection: Connection, inbox: str, id_: str, body_hash: str, now: datetime) -> str | None:
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


def _forget(connection: Connection, inbox: str, before: datetime) -> int:
    """Messages that were handled before then; how many."""
    old = (messages.c.inbox == inbox, messages.c.handled < before)
    return connection.execute(delete(messages).where(*old)).rowcount
