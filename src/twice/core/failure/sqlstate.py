"""PostgreSQL's error codes that twice knows, each once: what it means, and whether a new attempt may go well by itself.

A code is a SQLSTATE of five characters, or the beginning of some; the longest that fits counts. What a message says
depends on what was being done: `ledgers/database/known_errors.py` and `targets/postgres/server/errors.py` have the
words.
"""

from __future__ import annotations

from collections.abc import Mapping

CONNECTION_LOST = "08"
PROTOCOL_VIOLATED = "08P01"
BAD_VALUE = "22"
BAD_CHARACTER = "22021"
CONSTRAINT_BROKEN = "23"
READ_ONLY = "25006"
IDLE_TOO_LONG = "25P03"
"""The server ended a transaction that was idle for too long, and the connection with it."""
LOGIN_REFUSED = "28"
NO_DATABASE = "3D000"
UNDONE = "40"
"""The server undid the whole transaction in favour of another one."""
SERIALIZATION_FAILURE = "40001"
DEADLOCK = "40P01"
NOT_PERMITTED = "42501"
NO_TABLE = "42P01"
NO_ROOM = "53"
DISK_FULL = "53100"
TOO_MANY_CONNECTIONS = "53300"
LIMIT_CONFIGURED = "53400"
IN_USE = "55006"
LOCK_NOT_FREE = "55P03"
CANCELLED = "57014"
SHUTTING_DOWN = "57P"
"""The server stops, crashed, starts, or ends an idle session."""
DATABASE_DROPPED = "57P04"

PASSING: Mapping[str, bool] = {
    CONNECTION_LOST: True,
    PROTOCOL_VIOLATED: False,
    IDLE_TOO_LONG: True,
    UNDONE: True,
    NO_ROOM: True,
    DISK_FULL: False,
    LIMIT_CONFIGURED: False,
    IN_USE: True,
    LOCK_NOT_FREE: True,
    SHUTTING_DOWN: True,
    DATABASE_DROPPED: False,
}
"""Whether a new attempt may go well by itself. What is not here says nothing about that."""

RETRY_AT_ONCE = (SERIALIZATION_FAILURE, DEADLOCK)
"""The transaction was undone for reasons that are over as soon as it is."""


def passes(sqlstate: str) -> bool | None:
    """By the longest code that fits; None where none does."""
    return next((PASSING[code] for code in (sqlstate, sqlstate[:3], sqlstate[:2]) if code in PASSING), None)


def connection_is_gone(sqlstate: str) -> bool:
    """And the server's answer with it, so that it is not known how a COMMIT ended."""
    return sqlstate.startswith((CONNECTION_LOST, SHUTTING_DOWN)) or sqlstate == IDLE_TOO_LONG
