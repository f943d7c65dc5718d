"""Staging: rows copied into an unlogged table of the attempt's own, in takes, each with its row in a logged manifest.

A *take* is one try to copy one part of the rows, in one transaction: its rows, marked with its number, and its line in
the manifest. Spark may try a part twice (a task that is retried or speculated); neither twin waits for the other. The
seal gets which takes count, removes the rows of all others, and a take that finds the stage sealed gives up. A crash
of the server empties unlogged tables: what the manifest counts and the stage does not hold is `StageLost`, never an
empty result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from secrets import randbits
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg import sql

from twice.errors import StageLost, StageMismatch
from twice.targets.postgres import state
from twice.targets.postgres.server.names import Relation, column, ours, stage_of, take_column
from twice.targets.postgres.server.server import Connection, Server
from twice.targets.postgres.server.types import TableColumn
from twice.targets.postgres.table import Intent, Table

_FIX = "Run the task again."


@dataclass(frozen=True)
class Stage:
    """An attempt's stage of one table. `into`: that table as the publish will leave it."""

    attempt: str
    relation: Relation
    take_column: str
    into: Intent

    @property
    def table(self) -> Table:
        return self.into.table

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """As they are in the stage: in the types they travel in."""
        return tuple(replace(held, native=held.transport) for held in self.table.columns)


@dataclass(frozen=True)
class Loading:
    """What a process needs to copy a part: it travels to Spark's tasks."""

    conninfo: str = field(repr=False)
    settings: str
    attempt: str
    relation: Relation
    take_column: str


@dataclass(frozen=True)
class Taken:
    """One successful try to copy one part."""

    take: int
    rows: int


def open_stage(connection: Connection, into: Intent, attempt: str, token_names: Sequence[str]) -> Stage:
    """An empty stage. Dying here leaves none, or one that `discard` finds by the attempt's name."""
    table = into.table
    if into.entry.id:  # else its tokens are made with the table
        state.expect_tokens(connection, into.entry.id, token_names)
    connection.execute(
        "INSERT INTO twice.stages (attempt, table_id) VALUES (%s, %s)"
        " ON CONFLICT (attempt) DO UPDATE SET table_id = excluded.table_id, rows = NULL",
        [attempt, into.entry.id],
    )
    connection.execute("DELETE FROM twice.takes WHERE attempt = %s", [attempt])
    relation, mine = stage_of(attempt), take_column(list(table.names))
    columns = [
        sql.SQL("{} {}").format(column(name), sql.SQL(type_))
        for name, type_ in ((mine, "bigint"), *((each.name, each.transport) for each in table.columns))
    ]
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(relation.sql))
    connection.execute(
        # A stage is written once and read a few times: vacuuming it in between would only get in the way.
        sql.SQL("CREATE UNLOGGED TABLE {} ({}) WITH (autovacuum_enabled = false)").format(
            relation.sql, sql.SQL(", ").join(columns)
        )
    )
    return Stage(attempt, relation, mine, into)


def loading_of(server: Server, stage: Stage) -> Loading:
    return Loading(server.secret, server.settings().as_string(None), stage.attempt, stage.relation, stage.take_column)


def copy_part(loading: Loading, batches: Iterator[pa.RecordBatch]) -> Taken:
    """Copy one part's rows, in one transaction. Dying here leaves nothing of them, or a take that nobody reported,
    whose rows the seal removes."""
    take = randbits(63)
    with adbc.connect(loading.conninfo) as connection, connection.cursor() as cursor:
        _ask(cursor, loading.settings)
        _refuse_sealed(cursor, loading, "")
        rows = _ingest(cursor, loading, take, batches)
        cursor.execute(
            "INSERT INTO twice.takes (attempt, take, rows) VALUES ($1, $2, $3)", (loading.attempt, take, rows)
        )
        # Held until the commit: from here on the seal waits for this take, or this take has seen the seal.
        _refuse_sealed(cursor, loading, " FOR SHARE")
        connection.commit()
    return Taken(take, rows)


def seal(loading: Loading, taken: Iterable[Taken]) -> int:
    """The stage's rows are those of these takes, and no other comes from here on. How many rows.

    Dying here leaves an unsealed stage, which is never published.
    """
    wanted = {each.take: each.rows for each in taken}
    with adbc.connect(loading.conninfo) as connection, connection.cursor() as cursor:
        _ask(cursor, loading.settings)
        _ask(cursor, "SELECT 1 FROM twice.stages WHERE attempt = $1 FOR UPDATE", (loading.attempt,))
        held = dict(_ask(cursor, "SELECT take, rows FROM twice.takes WHERE attempt = $1", (loading.attempt,)))
        if {take: rows for take, rows in held.items() if take in wanted} != wanted:
            raise StageMismatch(
                f"the stage holds {_describe(held)}, and the job reported {_describe(wanted)}", fix=_FIX
            )
        if given_up := sorted(held.keys() - wanted.keys()):
            _remove(cursor, loading, given_up)
        rows = sum(wanted.values())
        cursor.execute("UPDATE twice.stages SET rows = $1 WHERE attempt = $2", (rows, loading.attempt))
        connection.commit()
    return rows


def check_whole(connection: Connection, stage: Stage, lock: bool = False) -> int:
    """The rows of a sealed stage, counted. Raises StageLost if it does not hold what was sealed."""
    waiting = " FOR UPDATE" if lock else ""
    row = connection.execute(f"SELECT rows FROM twice.stages WHERE attempt = %s{waiting}", [stage.attempt]).fetchone()
    there = connection.execute("SELECT to_regclass(%s)", [str(stage.relation)]).fetchone() != (None,)
    if row is None or row[0] is None or not there:
        raise StageLost("the staged rows are gone: the stage was discarded, or never sealed", fix=_FIX)
    return int(row[0])


def lost(sealed: int, found: int) -> StageLost:
    return StageLost(
        f"{sealed:,} rows were staged, and the stage holds {found:,}: the server crashed in between, which empties "
        "unlogged tables",
        fix=_FIX,
    )


def drop(connection: Connection, attempt: str) -> int:
    """Take a stage and its manifest away; how many takes there were."""
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(stage_of(attempt).sql))
    takes = connection.execute("DELETE FROM twice.takes WHERE attempt = %s", [attempt]).rowcount
    stages = connection.execute("DELETE FROM twice.stages WHERE attempt = %s", [attempt]).rowcount
    return max(takes, stages)


def _ingest(cursor: Any, loading: Loading, take: int, batches: Iterator[pa.RecordBatch]) -> int:
    first = next(batches, None)
    if first is None:
        return 0
    counted = 0

    def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal counted
        counted += batch.num_rows
        return batch.append_column(loading.take_column, pa.repeat(pa.scalar(take, pa.int64()), batch.num_rows))

    head = numbered(first)
    stream = pa.RecordBatchReader.from_batches(head.schema, chain([head], map(numbered, batches)))
    copied = cursor.adbc_ingest(loading.relation.name, stream, mode="append", db_schema_name=loading.relation.schema)
    if copied != counted:
        raise StageMismatch(f"{counted} rows were sent to the stage, and {copied} arrived", fix=_FIX)
    return counted


def _remove(cursor: Any, loading: Loading, takes: Sequence[int]) -> None:
    """Rows of tasks that were given up: a twin of theirs counts."""
    numbers = sql.SQL(", ").join(sql.Literal(take) for take in takes)
    for relation, mine in ((loading.relation, loading.take_column), (ours("takes"), "take")):
        gone = sql.SQL("DELETE FROM {} WHERE {} IN ({})").format(relation.sql, column(mine), numbers)
        cursor.execute(gone.as_string(None))


def _refuse_sealed(cursor: Any, loading: Loading, waiting: str) -> None:
    found = _ask(cursor, f"SELECT rows FROM {ours('stages')} WHERE attempt = $1{waiting}", (loading.attempt,))
    if not found or found[0][0] is not None:
        raise StageMismatch("the stage is sealed or gone: this task was given up", fix=_FIX)


def _ask(cursor: Any, statement: str, parameters: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
    cursor.execute(statement, parameters)
    return list(cursor.fetchall()) if cursor.description else []


def _describe(takes: Mapping[int, int]) -> str:
    return f"{sum(takes.values())} rows in {len(takes)} takes"
