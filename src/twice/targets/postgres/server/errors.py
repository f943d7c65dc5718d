"""What PostgreSQL's errors mean to a person: what happened, what is now true of the table, what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping

import psycopg

from twice.core.failure import sqlstate
from twice.errors import SEE_TRACE, UNCHANGED, EnvironmentProblem, ResultRefused, RunError, TwiceError

_SQLSTATE = re.compile(r"\[libpq\].*?SQLSTATE: ([0-9A-Z]{5})", re.DOTALL)
_COPY_COLUMN = re.compile(r"COPY \S+, line \d+, column ([^\s:]+)")
_MESSAGE = re.compile(r"\[libpq\].*?(?:ERROR|FATAL):\s+([^\n]+)", re.DOTALL)

_PASSING: Mapping[str | None, tuple[str, str]] = {
    sqlstate.DEADLOCK: ("a deadlock with others was broken by ending this transaction", "Run the task again."),
    sqlstate.SERIALIZATION_FAILURE: ("others changed the same rows at the same time", "Run the task again."),
    sqlstate.LOCK_NOT_FREE: (
        "the table is locked by someone else, and the wait was over",
        "See who holds it (pg_locks, pg_stat_activity), then run again; lock_seconds sets how long to wait.",
    ),
    sqlstate.CANCELLED: (
        "the server cancelled a statement that took too long",
        "See what it waits for, or give it more time: statement_seconds in [connections.…].",
    ),
    sqlstate.IDLE_TOO_LONG: (
        "the server ended a transaction that was idle for too long",
        "Run the task again; idle_seconds in [connections.…] sets how long it may be idle.",
    ),
}


def explained(error: BaseException, server: str, doing: str) -> TwiceError:
    """An error of psycopg or of ADBC, or Spark's telling of one, as one of ours. Its cause is set by the caller."""
    text = str(error)
    state = sqlstate_of(error)
    doing = f"{doing}: " if doing else ""
    message = _message(error, text)
    if state in _PASSING:
        what, fix = _PASSING[state]
        return RunError(f"{doing}{what} ({message})", fix=fix)
    if is_connection_lost(error):
        return RunError(f"{doing}the connection {server} to PostgreSQL was lost: {message}", fix=_RUN_AGAIN)
    if state is None:
        return RunError(doing + message, fix=_RUN_AGAIN)
    if state == sqlstate.NOT_PERMITTED:
        return EnvironmentProblem(
            f"{doing}{message}",
            now=UNCHANGED,
            fix=f"Grant it to the user of the connection {server}; docs/postgres.md lists what is needed.",
        )
    if state == sqlstate.BAD_CHARACTER and ("0x00" in message or "NUL" in message):
        column = _COPY_COLUMN.search(text)
        return ResultRefused(
            f"{doing}{f'column {column[1]}' if column else 'the result'} has text with the character NUL, "
            "which PostgreSQL cannot keep",
            fix=r'Take it out: regexp_replace(column, "\u0000", "").',
        )
    if state.startswith(sqlstate.NO_ROOM):
        return EnvironmentProblem(f"{doing}{message}", now=UNCHANGED, fix="Give the server room, then run again.")
    if state.startswith((sqlstate.BAD_VALUE, sqlstate.CONSTRAINT_BROKEN)):
        return ResultRefused(f"{doing}the table refuses the rows: {message}", fix="Correct the result.")
    return RunError(f"{doing}{message} (SQLSTATE {state})", fix=SEE_TRACE)


def sqlstate_of(error: BaseException) -> str | None:
    """PostgreSQL's. Spark hands on a task's error as text, and has SQLSTATEs of its own, which are not meant."""
    if isinstance(error, psycopg.Error):
        return error.sqlstate
    found = _SQLSTATE.search(str(error))
    return found[1] if found else None


def unreachable(error: psycopg.Error, server: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"the PostgreSQL server of the connection {server} cannot be reached: {_first_line(str(error))}",
        now=UNCHANGED,
        fix=f"Is it running? See url in [connections.{server}], then run again.",
    )


_RUN_AGAIN = "Run the task again: it will look first."


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection is gone, and the server's answer with it."""
    state = sqlstate_of(error)
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return sqlstate.connection_is_gone(state)


def _message(error: BaseException, text: str) -> str:
    diag = getattr(error, "diag", None)
    primary = getattr(diag, "message_primary", None)
    if primary:
        return str(primary)
    found = _MESSAGE.search(text)
    return found[1].strip() if found else _first_line(text)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["(no message)"])[0]
