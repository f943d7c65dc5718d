"""How a table is cut into parts that are read at once, and how a part is begun to be read, in whatever process: in the
run's snapshot, from the very files the run opened.

Parts are ranges of a table's pages, which together are every row once. Within one snapshot a row lies in one place, so
ranges of places neither lose nor double it, whatever its key is: as long as nobody rewrites the table. The run's lock
keeps others from that (snapshot.py), and every part makes sure of it: a table that was rewritten since would give it
none of its rows, or rows that another part gave too.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from psycopg import sql

from twice.errors import TableChanged
from twice.targets.postgres.read.query import Query
from twice.targets.postgres.server.names import Relation
from twice.targets.postgres.server.server import Connection

_FIX = "Run the task again."


def begin_reading(cursor: Any, query: Query, settings: str) -> None:
    """The first statements of a transaction that reads (an ADBC cursor). Raises TableChanged, which passes, where the
    table is not the one any more that the run opened."""
    if query.snapshot is not None:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            cursor.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(query.snapshot)).as_string(None))
        except Exception as error:
            raise TableChanged(
                f"the snapshot in which {query.relation} was being read is gone: the run's connection to the server "
                f"was lost ({_first_line(error)})",
                fix=_FIX,
            ) from error
    cursor.execute(settings)
    if query.file is not None:
        # Only with the lock in hand: from here to the end of this transaction it stays where it is.
        _ask(cursor, holding(query.relation).as_string(None))
        if _ask(cursor, file_of(query.relation).as_string(None)) != [(query.file,)]:
            raise TableChanged(f"{query.relation} was rewritten while it was being read", fix=_FIX)


def holding(relation: Relation) -> sql.Composed:
    """Takes ACCESS SHARE to the end of the transaction, on what lies behind a view and on every partition too: the
    least lock that keeps rewriting away, for which the right to read is enough. (LOCK TABLE takes no materialized
    view, and asks for rights on every column.)"""
    return sql.SQL("SELECT 1 FROM {} LIMIT 0").format(relation.sql)


def file_of(relation: Relation) -> sql.Composed:
    """Where it lies now: another number after each rewriting. Of what has no rows of its own, NULL."""
    name = sql.Literal(relation.sql.as_string(None))
    return sql.SQL("SELECT pg_relation_filenode({}::regclass)::bigint").format(name)


def _ask(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    return list(cursor.fetchall())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


PAGES = 256
"""A part smaller than this (2 MB) is not worth a connection."""


def split(connection: Connection, relation: Relation, query: str, parts: int) -> list[str]:
    """A condition for each part; one empty condition where the query is better left whole: a view, a partitioned
    table, few pages, or conditions that an index answers."""
    row = connection.execute(
        "SELECT c.relkind::text, pg_relation_size(c.oid) / current_setting('block_size')::int FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        [relation.schema, relation.name],
    ).fetchone()
    if row is None or row[0] not in ("r", "m"):
        return [""]
    wanted = min(parts, row[1] // PAGES)
    if wanted < 2 or not _reads_everything(connection, query):
        return [""]
    return ranges(row[1], wanted)


def ranges(pages: int, parts: int) -> list[str]:
    """The last one has no end: pages may have been added, and rows of ours may not lie there, but none is missed."""
    bounds = [pages * at // parts for at in range(parts)]
    conditions = [f"ctid >= '({low},0)'::tid AND ctid < '({high},0)'::tid" for low, high in pairwise(bounds)]
    return [*conditions, f"ctid >= '({bounds[-1]},0)'::tid"]


def _reads_everything(connection: Connection, query: str) -> bool:
    """Whether the server would read the whole table for this query: then it may as well be read by several."""
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchone()
    assert row is not None
    plans = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return "Seq Scan" in _nodes(plans[0]["Plan"])


def _nodes(plan: dict[str, Any]) -> list[str]:
    return [plan["Node Type"], *(name for inner in plan.get("Plans", ()) for name in _nodes(inner))]
