"""What a look asks of a table, answered by the server alone: no rows are read for it, and no engine is needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from twice.core.ports import Foreign, Held, Published, Touched
from twice.core.slice import Slice
from twice.core.table.owner import Ownership
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.targets.postgres import state
from twice.targets.postgres.server.names import relation_of
from twice.targets.postgres.server.server import Connection, Isolation, Server
from twice.targets.postgres.table import Table, find


class Looks:
    """Part of `core.ports.Target`: each question is a transaction of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        with self._looking(table, "repeatable read") as connection:
            held = self._find(connection, table)
            if held is None:
                return Published(None, dict.fromkeys(token_names, 0))
            if held.entry is None:
                return Published(0, dict.fromkeys(token_names, 0))
            found = state.generations(connection, held.entry.id, token_names)
            owners = state.owners(connection, held.entry.id) if token_names else Ownership()
            return Published(held.entry.version, found, owners, str(held.entry.id))

    def tokens(self, table: TableName, prefix: str) -> dict[str, Held]:
        with self._looking(table) as connection:
            held = self._find(connection, table)
            if held is None or held.entry is None:
                return {}
            return state.tokens(connection, held.entry.id, prefix)

    def provenance(
        self,
        table: TableName,
        token_name: str,
        generation: int,
        at: int | None = None,  # noqa: ARG002
    ) -> CommitNote | None:
        with self._looking(table) as connection:
            held = self._find(connection, table)
            if held is None or held.entry is None:
                return None
            return state.note(connection, held.entry.id, token_name, generation)

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:  # noqa: ARG002
        """PostgreSQL does not remember who changed a row."""
        return ()

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:  # noqa: ARG002
        """PostgreSQL does not remember which rows a transaction changed."""
        found = self.published(table, ())
        return None if found.version is None else Touched(table.name, found.version, None, found.id)

    def _looking(self, table: TableName, isolation: Isolation = "read committed") -> AbstractContextManager[Connection]:
        return self._server.transaction(isolation, f"looking at {table}")

    def _find(self, connection: Connection, table: TableName) -> Table | None:
        return find(connection, relation_of(table))
