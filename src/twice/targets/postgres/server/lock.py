"""A table to oneself, without holding up its readers.

Whoever waits for ACCESS EXCLUSIVE is waited for: PostgreSQL lets nobody in who comes later, not even the second
connection of a reader whose first one has the table open. That reader then waits for us and we for it, and the server,
which sees no tie between its two connections, finds no deadlock. So the lock is waited for in short turns: between two
of them readers go on.
"""

from __future__ import annotations

import random
import time

from psycopg import errors, sql

from twice.targets.postgres.server.names import Relation
from twice.targets.postgres.server.server import Connection

_TURN_MS = 200
_BETWEEN_S = 0.1
"""At most, and never the same: readers that come one after the other would be met in the same step each time."""


def lock_alone(connection: Connection, relation: Relation) -> None:
    """ACCESS EXCLUSIVE to the end of the transaction, waited for as long as its own lock_timeout says, 0 without end.
    Raises LockNotAvailable when that is over."""
    row = connection.execute("SELECT setting::int FROM pg_settings WHERE name = 'lock_timeout'").fetchone()
    assert row is not None
    patience = row[0]
    end = time.monotonic() + patience / 1000
    while True:
        try:
            with connection.transaction():  # a savepoint: a turn that is over must not undo what was done before it
                _wait_at_most(connection, min(_TURN_MS, patience) if patience else _TURN_MS)
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(relation.sql))
                _wait_at_most(connection, patience)
            return
        except errors.LockNotAvailable:
            if patience and time.monotonic() >= end:
                raise
        time.sleep(random.uniform(0, _BETWEEN_S))


def _wait_at_most(connection: Connection, milliseconds: int) -> None:
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [str(milliseconds)])
