"""Snapshots: one state of the database that many connections read at once, held open while a run reads.

The tables a run opens on one server are read in one snapshot, so they agree with each other. Only a table that twice
has written since the snapshot was taken is read in a snapshot of its own: a run gets a table's version first, and
must read that very version.

A snapshot alone does not hold a table's rows: VACUUM FULL, CLUSTER, TRUNCATE and some ALTERs put other files in the
place of the table's, in which its rows lie elsewhere or an older snapshot sees none. The transaction that exports the
snapshot therefore locks what is read against rewriting (ACCESS SHARE), until the run has read.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import psycopg

from twice.errors import TableChanged
from twice.targets.postgres.read.reading import file_of, holding
from twice.targets.postgres.server.errors import explained
from twice.targets.postgres.server.names import Relation
from twice.targets.postgres.server.server import Connection, Server
from twice.targets.postgres.table import Table, find

# What this transaction has locked and the snapshot sees elsewhere than it lies now: pg_class is read in the snapshot,
# the function asks for the present. Views and partitions too: what lies behind them was locked with them.
_REWRITTEN = """
    SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode = 'AccessShareLock' AND l.granted
      AND c.relkind IN ('r', 'm') AND c.relfilenode <> 0
      AND pg_relation_filenode(c.oid) IS DISTINCT FROM c.relfilenode LIMIT 1
"""


# Of a table and all its partitions or children, which an ALTER of its columns takes with it, those that this
# transaction has locked: by their own names, behind a view, or as a part of another table.
_READ = """
    WITH RECURSIVE parts AS (
        SELECT %s::oid AS oid
        UNION SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid
    )
    SELECT 1 FROM pg_locks l JOIN parts p ON p.oid = l.relation
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted LIMIT 1
"""


@dataclass(frozen=True)
class Opened:
    """A table as a snapshot sees it. `file`: where its rows lie, and stay while the snapshot is held."""

    snapshot: str
    table: Table
    file: int | None


@dataclass(frozen=True, eq=False)
class Snapshot:
    id: str
    connection: Connection

    def version(self, relation: Relation) -> int | None:
        """The table's version as this snapshot sees it; 0 for one that twice does not write, None without a table."""
        return version_of(find(self.connection, relation))

    def open(self, relation: Relation) -> Opened | None:
        """The table, held where it is; None, and not held, if it was rewritten after the snapshot was taken: its rows
        are to be read in a later one."""
        opened = None
        with self.connection.transaction() as undone:  # what goes wrong must not end the snapshot for the other tables
            self.connection.execute(holding(relation))
            table = find(self.connection, relation)
            if self.connection.execute(_REWRITTEN).fetchone() is not None:
                raise psycopg.Rollback(undone)
            if _other_now(self.connection, table):
                raise psycopg.Rollback(undone)
            row = self.connection.execute(file_of(relation)).fetchone()
            assert row is not None and table is not None
            opened = Opened(self.id, table, row[0])
        return opened  # noqa: RET504 - what was undone comes here too


class Snapshots:
    """Those of one run on one server. `close` lets them go; what was not read by then cannot be read any more."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._held: list[Snapshot] = []
        self._lock = threading.Lock()

    def of(self, relation: Relation, at: int | None = None) -> Opened | None:
        """The table in a snapshot in which it has this version; without one, in a new snapshot of the present. None if
        there is no such table."""
        with self._lock:
            try:
                return self._of(relation, at)
            except psycopg.Error as error:
                raise explained(error, self._server.name, f"reading {relation}") from error

    def hold(self, table: Table) -> bool:
        """Whether a table is being read, be it through a view or as a part of another one: nobody can change its
        columns until that ends."""
        with self._lock:
            try:
                return any(held.connection.execute(_READ, [table.oid]).fetchone() is not None for held in self._held)
            except psycopg.Error as error:
                raise explained(error, self._server.name, f"looking whether {table.relation} is read") from error

    def close(self) -> None:
        with self._lock:
            for held in self._held:
                held.connection.close()
            self._held.clear()

    def _of(self, relation: Relation, at: int | None) -> Opened | None:
        if at is not None:
            for held in self._held:
                if held.version(relation) == at and (opened := held.open(relation)) is not None:
                    return opened
        first = self._take()
        try:
            if first.version(relation) is None:
                return None
            # Outside of what `open` undoes: while this is held, nobody can rewrite it before the second one's own lock.
            first.connection.execute(holding(relation))
            opened = self._kept(first, relation, at)
            return opened if opened is not None else self._kept(self._take(), relation, at)
        finally:
            if first not in self._held:
                first.connection.close()

    def _kept(self, taken: Snapshot, relation: Relation, at: int | None) -> Opened | None:
        try:
            opened = taken.open(relation)
            found = version_of(opened.table) if opened is not None else None
            if opened is not None and at is not None and found != at:
                raise TableChanged(
                    f"{relation} was published again while it was being opened (version {found}, not {at}), and "
                    "PostgreSQL keeps no older state",
                    fix="Run the task again.",
                )
        except BaseException:
            taken.connection.close()
            raise
        if opened is not None:
            self._held.append(taken)
        return opened

    def _take(self) -> Snapshot:
        connection = self._server.connect()
        connection.autocommit = False
        # Idle for as long as Spark reads: the server must not take it for lost.
        self._server.begin(connection, "repeatable read", idle=0)
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        return Snapshot(row[0], connection)


def _other_now(connection: Connection, table: Table | None) -> bool:
    """Whether another table took the name after the snapshot was taken: a name means the present table, and its rows
    are those that the snapshot sees of it, some of them perhaps."""
    if table is None:
        return False
    row = connection.execute("SELECT to_regclass(%s)::oid", [table.relation.sql.as_string(connection)]).fetchone()
    return row != (table.oid,)


def version_of(table: Table | None) -> int | None:
    return None if table is None else table.entry.version if table.entry else 0
