"""What databases say when they cannot serve, what it means here, and what helps. Data only.

`{it}` is what lives in the database: the ledger, a queue, an inbox.
"""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.failure import sqlstate


@dataclass(frozen=True)
class KnownError:
    """`words` are in the database's own message, or are its SQLSTATE (or the beginning of one). `passing`: the same
    call may well succeed in a moment, since only the connection or a restarting server is in the way."""

    words: str
    means: str
    fix: str
    passing: bool = False


_LOOK_FIRST = "run again: it will look first."
_SERVER = "Check that the server is up and that this machine reaches it; then " + _LOOK_FIRST
_GRANT = "Give this user CONNECT on the database, and USAGE and CREATE on the schema; docs/ledger.md lists it."

# SQLite's messages: they are part of its stable interface.
SQLITE = (
    KnownError(
        "database is locked",
        "another process has been writing to the {it} for too long",
        "See who holds it (lsof on the file); run again when that process has ended.",
    ),
    KnownError("readonly", "the {it} cannot be written", "Make the file and its folder writable for this user."),
    KnownError("database or disk is full", "the {it}'s disk is full", f"Free some space, then {_LOOK_FIRST}"),
    KnownError(
        "file is not a database",
        "the file is not a ledger",
        "Give another path for the {it}, or move this file away: a new ledger is made in its place.",
    ),
    KnownError(
        "malformed",
        "the {it} file is damaged",
        "Restore it from a backup, or move it away and rebuild it from the tables: twice ledger rebuild.",
    ),
    KnownError(
        "unable to open database file",
        "the {it} cannot be opened",
        "Check that the folder exists and that this user may read and write it.",
    ),
    KnownError("disk I/O error", "the {it}'s disk gives errors", f"Check the disk (dmesg), then {_LOOK_FIRST}"),
    KnownError(
        "no such table",
        "the {it} has lost its tables: the file was replaced while it was in use",
        "Run again: what is published is read from the tables.",
    ),
)

# By SQLSTATE; before a session exists psycopg has none to give, only the server's words.
POSTGRES = (
    KnownError(
        "password authentication failed",
        "the {it}'s server refused this user and password",
        "Correct the password where the URL takes it from; it is not shown here.",
    ),
    KnownError(
        sqlstate.LOGIN_REFUSED,
        "the {it}'s server refused this login",
        "Check the URL's user and password, and pg_hba.conf.",
    ),
    KnownError("no pg_hba.conf entry", "the {it}'s server does not let this user in from here", "See its pg_hba.conf."),
    KnownError(
        sqlstate.NO_DATABASE,
        "the {it}'s database does not exist",
        "Create it: createdb NAME; its tables are made by twice.",
    ),
    KnownError("does not exist", "the {it}'s database or user does not exist", "Create it: createdb NAME."),
    KnownError(sqlstate.NOT_PERMITTED, "this user lacks privileges on the ledger's tables", _GRANT),
    KnownError(
        sqlstate.READ_ONLY,
        "the {it}'s database is read-only: it may be a standby",
        "Write the URL of the primary; a list of hosts takes target_session_attrs=read-write.",
    ),
    KnownError(sqlstate.DISK_FULL, "the {it}'s disk is full", f"Free some space on the server, then {_LOOK_FIRST}"),
    KnownError(
        sqlstate.NO_TABLE,
        "the {it} has lost its tables",
        "Run again: what is published is read from the tables.",
    ),
    KnownError(
        sqlstate.CANCELLED,
        "another process has been writing to the {it} for too long",
        "See who holds it: SELECT * FROM pg_stat_activity WHERE application_name = 'twice'.",
    ),
    KnownError(
        sqlstate.UNDONE,
        "the database rolled the call back because of a conflict with another one",
        "Run again.",
        passing=True,
    ),
    KnownError(
        sqlstate.TOO_MANY_CONNECTIONS,
        "the {it}'s server takes no more connections",
        "Run fewer attempts at once, or raise its max_connections.",
        passing=True,
    ),
    KnownError(
        "too many clients",
        "the {it}'s server takes no more connections",
        "Run fewer attempts at once, or raise its max_connections.",
        passing=True,
    ),
    KnownError("resolve host", "the {it}'s server has no such name", "Check the host in the URL."),
    KnownError("translate host name", "the {it}'s server has no such name", "Check the host in the URL."),
    KnownError("Connection refused", "the {it}'s server does not answer", _SERVER, passing=True),
    KnownError("timeout expired", "the {it}'s server does not answer", _SERVER, passing=True),
    KnownError(sqlstate.SHUTTING_DOWN, "the {it}'s server is going down or coming up", _SERVER, passing=True),
    KnownError(sqlstate.CONNECTION_LOST, "the connection to the {it}'s server was lost", _SERVER, passing=True),
    KnownError(sqlstate.IDLE_TOO_LONG, "the connection to the {it}'s server was lost", _SERVER, passing=True),
)

OUT_OF_REACH = KnownError("", "the connection to the {it}'s server was lost", _SERVER, passing=True)
UNKNOWN = KnownError("", "the {it} cannot be used", "Check the {it}'s URL and that its server is up.")


def of_sqlite(message: str) -> KnownError:
    return next((known for known in SQLITE if known.words in message), UNKNOWN)


def of_postgres(message: str, state: str | None, connection_lost: bool) -> KnownError:
    """By the server's own code where there is one. `connection_lost`: as the driver itself says."""
    for known in POSTGRES:
        is_state = known.words[:1].isdigit()
        if state is not None and is_state and state.startswith(known.words):
            return known
        if state is None and not is_state and known.words in message:
            return known
    return OUT_OF_REACH if connection_lost else UNKNOWN
