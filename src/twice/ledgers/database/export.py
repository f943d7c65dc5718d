"""The whole ledger as plain data, row by row: to look into, to keep, to load elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select, text

from twice.ledgers.database.schema import HEAD, metadata

FORMAT = 1


def export(connection: Connection) -> Iterator[dict[str, Any]]:
    """One row at a time, in one state of the ledger, however long the reader takes. Changes nothing."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
    yield {"ledger": FORMAT, "schema": HEAD}
    for table in metadata.sorted_tables:
        rows = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=1000)
        for row in connection.execute(rows):
            yield {"table": table.name.removeprefix("twice_"), **row._mapping}
