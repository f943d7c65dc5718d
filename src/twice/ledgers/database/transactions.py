"""What every part of a ledger works with: its database, the rows that are its own, and the clock of its leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine

from twice.core.ports.clock import Clock
from twice.ledgers.database.clock import database_time
from twice.ledgers.database.connect import for_writing
from twice.ledgers.database.errors import plain_errors
from twice.ledgers.database.outage import Outage
from twice.ledgers.database.own_rows import OwnRows

T = TypeVar("T")


@dataclass(frozen=True)
class Transactions:
    """Each is one transaction, committed at the end of its `with`. The time is the database's, so that hosts need not
    agree on it; a test may give its own `clock`."""

    engine: Engine
    own: OwnRows
    clock: Clock | None = None
    outage: Outage = field(default_factory=Outage)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with plain_errors(self.engine.url), for_writing(self.engine).begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with plain_errors(self.engine.url), self.engine.begin() as connection:
            yield connection

    def time(self, connection: Connection) -> datetime:
        return database_time(connection) if self.clock is None else self.clock.now()


class Records:
    """One part of a ledger. Every method is one transaction; one that is `retrying_outages` is called again when the
    connection to the database is lost in the middle of it."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._writing = transactions.writing
        self._reading = transactions.reading
        self._time = transactions.time

    @property
    def _engine(self) -> Engine:
        return self._transactions.engine

    @property
    def _own(self) -> OwnRows:
        return self._transactions.own

    @property
    def _outage(self) -> Outage:
        return self._transactions.outage

    def _read(self, question: Callable[[Connection], T]) -> T:
        """The answer of one reading transaction, asked again when the connection is lost."""

        def ask(_: bool) -> T:
            with self._reading() as connection:
                return question(connection)

        return self._outage.outlive(ask)
