"""A database of the user's in which our row and the user's work commit together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection, MetaData, event, inspect, text
from sqlalchemy.exc import DBAPIError

from twice.errors import UsageError
from twice.ledgers.database.connect import connect, for_writing, parse_url
from twice.ledgers.database.errors import plain_errors
from twice.ledgers.database.migrate import lock_schema
from twice.ledgers.database.outage import Outage

_IDLE = "IDLE"
"""Of a session of PostgreSQL: no statement was sent yet, or one has ended the transaction."""

_END = re.compile(r"(\s|;|--[^\n]*\n|/\*.*?\*/)*(COMMIT|END|ROLLBACK(?!\s+(TRANSACTION\s+)?TO\b))\b", re.I | re.S)
_ENDED = "twice: ended by a word of SQL"
"""In what a connection to SQLite carries: its transaction was. Whether it was that, or the database that has undone the
transaction, the driver does not say."""

_WITH_OUR_ROW = text("SAVEPOINT twice_our_row")
_STILL_THERE = text("RELEASE SAVEPOINT twice_our_row")
"""A transaction that was ended and begun again, by whatever call, has no such savepoint any more."""


class _State(Enum):
    """Of the transaction in which our row was written, when the handler is done."""

    OPEN = "it is the one that was handed out"
    ENDED = "the handler has ended it"
    UNDONE = "the database has undone it, or the handler has ended it through the driver"


T = TypeVar("T")
S = TypeVar("S", bound="OnDatabase")
Handler = Callable[[Connection], object]
"""The user's work, on the transaction's own connection. It must not commit, nor roll back: who handed it out does."""


class Handling:
    """`it` is what lives in the database: a queue, an inbox. Threads may share one; a forked child opens its own."""

    def __init__(self, url: str, it: str, tables: MetaData) -> None:
        """Makes the tables if they are missing. Dying here leaves all of them, or none."""
        self._it = it
        self._engine = connect(parse_url(url, it), it)
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "before_cursor_execute", _refuse_outside)
        self._outage = Outage()
        try:
            self._make(tables)
        except BaseException:
            self._engine.dispose()
            raise

    def _make(self, tables: MetaData) -> None:
        # Looked for first: an opening must not wait for a handler that is running.
        with self.reading() as connection:
            if set(tables.tables) <= set(inspect(connection).get_table_names()):
                return
        with self.writing() as connection:
            lock_schema(connection)
            tables.create_all(connection)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Committed at the end, undone by an error. What the database has undone by itself is an error too: its reply
        to COMMIT does not say so."""
        with plain_errors(self._engine.url, self._it), for_writing(self._engine).begin() as connection:
            connection.info.pop(_ENDED, None)
            yield connection
            if connection.in_transaction() and _is_undone(connection):
                raise _undone_error(sure=False)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with plain_errors(self._engine.url, self._it), self._engine.begin() as connection:
            yield connection

    def outlive(self, call: Callable[[], T]) -> T:
        """Make a call that may happen twice, again while the server is away for a moment."""
        return self._outage.outlive(lambda _: call())

    def together(self, before: Callable[[Connection], bool], handle: Handler, silence: timedelta) -> bool:
        """In one transaction: `before` writes our row and returns whether there is work to do, then `handle` does it.
        All of it commits, or nothing. `silence` is how long the handler may leave the database idle.

        Dying anywhere leaves nothing of both; a lost reply to the commit is answered by `before` of the next call.
        """
        failed: Exception | None = None
        with self.writing() as connection:
            _be_patient(connection, silence)
            if not before(connection):
                return False
            connection.execute(_WITH_OUR_ROW)
            try:
                handle(connection)
            except Exception as error:  # noqa: BLE001 - raised below as it is: it is not the database's error
                failed = error
            state = _state(connection)
            if failed is not None or state is not _State.OPEN:
                connection.rollback()
        if state is _State.OPEN:
            if failed is not None:
                raise failed
            return True
        committed = self._is_committed(before)
        if state is _State.ENDED or committed:
            raise _ended_error() from failed
        raise failed or _undone_error(sure=committed is False)

    def _is_committed(self, before: Callable[[Connection], bool]) -> bool | None:
        """Whether our row is in the database although its transaction is over: a handler that reaches the driver
        (`executescript`, a commit of its own) may have committed it, and SQLAlchemy does not know. None: it is not
        known. Changes nothing."""
        try:
            with self.writing() as connection:
                missing = before(connection)
                connection.rollback()
                return not missing
        except Exception:  # noqa: BLE001 - it is away, or another worker has the item by now
            return None


class OnDatabase:
    """A queue or an inbox: opened on its database, closed at the end of the `with` or by `close`."""

    _database: Handling

    def __enter__(self: S) -> S:
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


def _be_patient(connection: Connection, silence: timedelta) -> None:
    """The ledger's own transactions take milliseconds and are cut off early; a handler's may take its time."""
    if connection.dialect.name == "postgresql":
        # A second at least: that long a busy machine may keep anybody.
        milliseconds = round(max(1.0, silence.total_seconds()) * 1000)
        connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}"))
        connection.execute(text("SET LOCAL statement_timeout = 0"))


def _is_undone(connection: Connection) -> bool:
    """Whether the database has given the transaction up, which SQLAlchemy still takes for open. PostgreSQL does so
    after every error that no savepoint holds, SQLite at OR ROLLBACK and where its disk is full."""
    if connection.invalidated:
        return True
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite":
        return not driver.in_transaction and not connection.info.get(_ENDED)
    return driver.info.transaction_status.name not in ("INTRANS", _IDLE)


def _ended_by_handler(connection: Connection) -> bool:
    """Whether a transaction in which our row is written was ended by the handler: by a call, or by a word of SQL."""
    if not connection.in_transaction():
        return True
    driver: Any = None if connection.invalidated else connection.connection.dbapi_connection
    if driver is None:
        return False
    if connection.dialect.name == "sqlite":
        return not driver.in_transaction and bool(connection.info.get(_ENDED))
    ended: bool = driver.info.transaction_status.name == _IDLE
    return ended


def _state(connection: Connection) -> _State:
    if _ended_by_handler(connection):
        return _State.ENDED
    if _is_undone(connection):
        return _State.UNDONE
    try:
        connection.execute(_STILL_THERE)
    except DBAPIError:
        return _State.ENDED  # and begun another one
    return _State.OPEN


def _refuse_outside(connection: Connection, _cursor: object, statement: str, *_more: object) -> None:
    # PostgreSQL refuses every further statement by itself; SQLite would commit each on its own.
    if connection.in_transaction() and _is_undone(connection):
        raise _undone_error(sure=False)
    if connection.in_transaction() and _ended_by_handler(connection):
        raise _ended_error()
    if _END.match(statement):
        connection.info[_ENDED] = True


def _ended_error() -> UsageError:
    return UsageError(
        "the handler committed or rolled back itself: what it wrote before may be saved",
        now="The work may be half done.",
        fix="Leave out commit() and rollback() in the handler; raise an error to undo everything.",
    )


def _undone_error(*, sure: bool) -> UsageError:
    """`sure`: the database was asked. The driver of SQLite does not say who has ended a transaction, or how."""
    return UsageError(
        "a statement failed and the code went on, but the database has undone the whole transaction with it",
        now="Nothing of it was written." if sure else "Nothing of it was written, unless the code committed it itself.",
        fix="Use connection.begin_nested() around what may fail (on SQLite without OR ROLLBACK), or let the error out.",
    )
