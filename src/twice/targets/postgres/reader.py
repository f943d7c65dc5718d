"""What a PostgreSQL server says of its tables, asked by its own driver: neither Spark nor Arrow is loaded for it.

All questions of one command are asked in one connection and one snapshot. A table that is missing, and every error of
the server, is left to the full way, which says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NoReturn

import psycopg

from twice.core.ports import NeedsEngine
from twice.core.task import TableName
from twice.errors import EnvironmentProblem
from twice.targets.postgres.looks import Looks
from twice.targets.postgres.server.server import Connection, Isolation, Server
from twice.targets.postgres.table import Table


class PostgresReader(Looks):
    """The part of `core.ports.Target` that a look needs. Whatever else is asked of it needs an engine. Close it: it
    holds a snapshot once it was asked something."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._connection: Connection | None = None
        self._found: dict[TableName, Table] = {}

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsEngine(f"{name} of a PostgreSQL table")

    def _looking(
        self,
        table: TableName,
        isolation: Isolation = "read committed",  # noqa: ARG002 - all questions are asked in one snapshot
    ) -> AbstractContextManager[Connection]:
        return self._asking(table)

    @contextmanager
    def _asking(self, table: TableName) -> Iterator[Connection]:
        try:
            if self._connection is None:
                self._connection = self._begun()
            yield self._connection
        except (psycopg.Error, EnvironmentProblem) as error:
            raise NeedsEngine(f"{table} could not be looked at: {error}") from error

    def _begun(self) -> Connection:
        connection = self._server.connect()
        connection.autocommit = False
        self._server.begin(connection, "repeatable read")
        connection.execute("SET TRANSACTION READ ONLY")
        return connection

    def _find(self, connection: Connection, table: TableName) -> Table:
        if table not in self._found:
            found = super()._find(connection, table)
            if found is None:
                raise NeedsEngine(f"there is no table {table}")
            self._found[table] = found
        return self._found[table]
