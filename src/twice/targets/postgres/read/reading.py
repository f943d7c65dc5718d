"""How a part of a table is begun to be read, in whatever process: in the run's snapshot, from the very files the run
opened. A table that was rewritten since would give this part none of its rows, or rows that another part gave too."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from twice.errors import StageMismatch
from twice.targets.postgres.read.query import Query
from twice.targets.postgres.server.names import Relation

_FIX = "Run the task again."


def begin_reading(cursor: Any, query: Query, settings: str) -> None:
    """The first statements of a transaction that reads (an ADBC cursor). Raises StageMismatch, which passes, where the
    table is not the one any more that the run opened."""
    if query.snapshot is not None:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            cursor.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(query.snapshot)).as_string(None))
        except Exception as error:
            raise StageMismatch(
                f"the snapshot in which {query.relation} was being read is gone: the run's connection to the server "
                f"was lost ({_first_line(error)})",
                fix=_FIX,
            ) from error
    cursor.execute(settings)
    if query.file is not None:
        # Only with the lock in hand: from here to the end of this transaction it stays where it is.
        _ask(cursor, holding(query.relation).as_string(None))
        if _ask(cursor, file_of(query.relation).as_string(None)) != [(query.file,)]:
            raise StageMismatch(f"{query.relation} was rewritten while it was being read", fix=_FIX)


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
