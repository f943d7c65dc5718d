"""Snapshots: one state of the database that many connections read at once, held open while a run reads.

The tables a run opens on one server are read in one snapshot, so they agree with each other. Only a table that twice
has written since the snapshot was taken is read in a snapshot of its own: a run is told a table's version first, and
must read that very version.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from psycopg import sql

from twice.errors import StageMismatch
from twice.targets.postgres.names import Relation
from twice.targets.postgres.server import Connection, Server
from twice.targets.postgres.table import find


@dataclass(frozen=True)
class Snapshot:
    id: str
    connection: Connection

    def version(self, relation: Relation) -> int | None:
        """The table's version as this snapshot sees it; 0 for one that twice does not write, None without a table."""
        held = find(self.connection, relation)
        return None if held is None else held.entry.version if held.entry else 0


class Snapshots:
    """Those of one run on one server. `close` lets them go; what was not read by then cannot be read any more."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._held: list[Snapshot] = []
        self._lock = threading.Lock()

    def of(self, relation: Relation, at: int | None = None) -> str:
        """A snapshot in which the table has this version; without one, a new snapshot of the present."""
        with self._lock:
            if at is not None:
                for held in self._held:
                    if held.version(relation) == at:
                        return held.id
            taken = self._take()
            found = taken.version(relation)
            if at is not None and found != at:
                taken.connection.close()
                raise StageMismatch(
                    f"{relation} was published again while it was being opened (version {found}, not {at}), and "
                    "PostgreSQL keeps no older state",
                    fix="Run the task again.",
                )
            self._held.append(taken)
            return taken.id

    def close(self) -> None:
        with self._lock:
            for held in self._held:
                held.connection.close()
            self._held.clear()

    def _take(self) -> Snapshot:
        connection = self._server.connect()
        connection.autocommit = False
        # Silent for as long as Spark reads: the server must not take it for lost.
        self._server.begin(connection, "repeatable read", idle=0)
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        return Snapshot(row[0], connection)


def joining(snapshot: str | None) -> list[str]:
    """The first statements of a transaction that reads in a snapshot."""
    if snapshot is None:
        return []
    return [
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)).as_string(None),
    ]
