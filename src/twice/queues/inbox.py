"""Messages that may arrive twice are handled once: for consumers of at-least-once queues and webhooks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType

from sqlalchemy import Connection

from twice.errors import BodyDiffers
from twice.ledgers.database.clock import database_time
from twice.queues import messages
from twice.queues.handling import Handler, Handling
from twice.queues.item import body_hash, checked_id

SILENCE = timedelta(minutes=5)
"""How long a handler may leave the database idle before it counts as dead (PostgreSQL)."""


class Inbox:
    """Remembers which messages were handled, in the database that the handler writes to (`sqlite:///…` or
    `postgresql://…`): its work and the memory of it commit together. Acknowledge to the broker after `once` returned.
    """

    def __init__(self, url: str, name: str) -> None:
        self.name = checked_id(name, "the inbox's name")
        self._database = Handling(url, "inbox", messages.metadata)

    def __enter__(self) -> Inbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def connect(self) -> AbstractContextManager[Connection]:
        """A transaction on the same database: committed at the end of the `with`, undone by an error."""
        return self._database.writing()

    def once(self, message_id: str, body: bytes | str, handle: Handler) -> bool:
        """Call `handle` with the transaction's connection, unless this message was handled before: then False.

        A handler that raises has done nothing; redelivery tries again. Two deliveries at once: one handles, the other
        waits for its end. The same id with another body is an error: it is another message, or a forged one.
        """
        checked_id(message_id, "the message's id")
        digest = body_hash(body)

        def is_new(connection: Connection) -> bool:
            known = messages.remember(connection, self.name, message_id, digest, database_time(connection))
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
                return messages.forget(connection, self.name, database_time(connection) - older_than)

        return self._database.outlive(old)
