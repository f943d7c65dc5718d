"""A table that is read in parts, and what others may do to it meanwhile: nothing that would lose or double a row.
With a real server; the parts are read as Spark's tasks read them, one after the other. No JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pytest
from tests.contracts.postgres_harness import PostgresHarness, staged

from twice.core.ports import Column, Shape
from twice.core.task import TableName
from twice.core.write import Layout
from twice.errors import ResultRefused, RunError, TableChanged
from twice.targets.postgres.frames.plain import PlainFrames
from twice.targets.postgres.read.query import Query
from twice.targets.postgres.read.reading import begin_reading, ranges
from twice.targets.postgres.read.snapshot import Snapshots
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.target import PostgresTarget

ORDERS = TableName("shop.orders")
ROWS = 5_000
REWRITES = (
    "ALTER TABLE shop.orders ALTER COLUMN n TYPE bigint",
    "VACUUM FULL shop.orders",
    "CLUSTER shop.orders USING orders_by_n",
    "TRUNCATE shop.orders",
)


class LazyFrames(PlainFrames):
    """A frame is its query: rows are read later, as Spark reads them."""

    def read(self, server: Server, query: Query) -> Any:
        return query


@pytest.fixture
def server(database: str) -> Server:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop")
        connection.execute(
            f"CREATE TABLE shop.orders AS SELECT n, repeat('x', 100) AS padding FROM generate_series(1, {ROWS}) n"
        )
        connection.execute("CREATE UNIQUE INDEX orders_by_n ON shop.orders (n)")
    return Server("postgres", database, Limits(lock=1, statement=60))


@pytest.fixture
def snapshots(server: Server) -> Iterator[Snapshots]:
    held = Snapshots(server)
    yield held
    held.close()


@pytest.fixture
def target(server: Server, snapshots: Snapshots) -> PostgresTarget:
    return PostgresTarget(server, LazyFrames(lazy=True), snapshots)


def part(server: Server, query: Query, *conditions: str) -> list[int]:
    with adbc.connect(server.secret) as connection, connection.cursor() as cursor:
        begin_reading(cursor, query, server.settings().as_string(None))
        cursor.execute(query.text(*conditions))
        found: Any = cursor.fetch_arrow_table()
    return [int(value) for value in found["n"].to_pylist()]


def parts(server: Server) -> Sequence[str]:
    ((pages,),) = rows_of(server, "SELECT pg_relation_size('shop.orders') / current_setting('block_size')::int")
    return ranges(pages, 2)


def rows_of(server: Server, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.secret, autocommit=True) as connection:
        return connection.execute(statement).fetchall()


def tried(server: Server, statement: str) -> bool:
    """Whether somebody else may do this now, without waiting."""
    with psycopg.connect(server.secret, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '100ms'")
        try:
            connection.execute(statement)
        except psycopg.errors.LockNotAvailable:
            return False
        return True


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_table_rewritten_between_two_parts_loses_no_row_and_doubles_none(
    server: Server, target: PostgresTarget, snapshots: Snapshots, rewrite: str
) -> None:
    query = target.read(ORDERS, at=0)
    first, second = parts(server)
    found = part(server, query, first)
    done = tried(server, rewrite)
    found += part(server, query, second)
    assert sorted(found) == list(range(1, ROWS + 1))
    assert not done  # it waits until the run has read
    snapshots.close()
    assert tried(server, rewrite)


def test_others_may_write_to_a_table_that_is_being_read(server: Server, target: PostgresTarget) -> None:
    query = target.read(ORDERS, at=0)
    assert tried(server, "DELETE FROM shop.orders WHERE n > 10")
    assert tried(server, "VACUUM shop.orders")
    assert tried(server, "CREATE INDEX ON shop.orders (padding)")
    assert len(part(server, query)) == ROWS


@pytest.mark.parametrize("kind", ["a view", "a partitioned table", "a materialized view"])
def test_what_lies_behind_a_view_or_in_a_partition_is_held_too(
    server: Server, target: PostgresTarget, kind: str
) -> None:
    with psycopg.connect(server.secret, autocommit=True) as connection:
        if kind == "a view":
            connection.execute("CREATE VIEW shop.seen AS SELECT n FROM shop.orders")
        elif kind == "a materialized view":
            connection.execute("CREATE MATERIALIZED VIEW shop.seen AS SELECT n FROM shop.orders")
        else:
            connection.execute("CREATE TABLE shop.seen (n int, padding text) PARTITION BY RANGE (n)")
            connection.execute("ALTER TABLE shop.seen ATTACH PARTITION shop.orders FOR VALUES FROM (1) TO (100000)")
    query = target.read(TableName("shop.seen"), at=0)
    rewrite = "REFRESH MATERIALIZED VIEW shop.seen" if kind == "a materialized view" else "TRUNCATE shop.orders"
    assert not tried(server, rewrite)
    assert len(part(server, query)) == ROWS


def test_a_second_table_that_was_rewritten_since_the_snapshot_gets_one_of_its_own(
    server: Server, target: PostgresTarget
) -> None:
    """In the first one's snapshot it would have no rows at all."""
    with psycopg.connect(server.secret, autocommit=True) as connection:
        connection.execute("CREATE TABLE shop.other AS SELECT n FROM generate_series(1, 3) n")
        connection.execute("CREATE TABLE shop.third AS SELECT n FROM generate_series(1, 3) n")
    first = target.read(ORDERS, at=0)
    assert tried(server, "ALTER TABLE shop.other ALTER COLUMN n TYPE bigint")
    other, third = target.read(TableName("shop.other"), at=0), target.read(TableName("shop.third"), at=0)
    assert len(part(server, other)) == 3
    assert other.columns[0].native == "bigint"
    assert (other.snapshot != first.snapshot, third.snapshot == first.snapshot) == (True, True)


def test_a_part_whose_snapshot_is_gone_fails_for_a_passing_reason(
    server: Server, target: PostgresTarget, snapshots: Snapshots
) -> None:
    """The line of the process that holds it was cut."""
    query = target.read(ORDERS, at=0)
    snapshots.close()
    assert tried(server, "VACUUM FULL shop.orders")
    with pytest.raises(TableChanged, match=r"the snapshot in which shop\.orders was being read is gone"):
        part(server, query)


def test_a_stage_rewritten_between_two_parts_is_not_read_on(database: str) -> None:
    """It must be free to be dropped by the publish, so no lock holds it."""
    harness = PostgresHarness(database)
    made, stage = staged(harness, "a")
    server = Server("postgres", database)
    query = PostgresTarget(server, LazyFrames(lazy=True)).read(stage.table, stage)
    with adbc.connect(server.secret) as connection, connection.cursor() as cursor:
        begin_reading(cursor, query, server.settings().as_string(None))
    harness.ask("VACUUM FULL twice.stage_a")
    with (
        adbc.connect(server.secret) as connection,
        connection.cursor() as cursor,
        pytest.raises(TableChanged, match=r"twice\.stage_a was rewritten while it was being read"),
    ):
        begin_reading(cursor, query, server.settings().as_string(None))
    assert harness.rows(made.read(stage.table, stage))  # the next reading knows where it lies now


def test_a_table_that_others_hold_is_waited_for_only_so_long(server: Server, target: PostgresTarget) -> None:
    with psycopg.connect(server.secret) as other:
        other.execute("LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(RunError, match="the table is locked by someone else, and the wait was over"):
            target.read(ORDERS, at=0)
    assert len(target.read(ORDERS, at=0).columns) == 2


def test_a_task_that_reads_its_own_table_cannot_add_a_column_to_it(server: Server, target: PostgresTarget) -> None:
    """It would wait for itself."""
    columns = (Column("n", "int"), Column("padding", "string"))
    target.prepare(ORDERS, Shape(columns), Layout(), True)
    target.read(ORDERS, at=0)
    with pytest.raises(ResultRefused, match=r"this run reads shop\.orders itself, so it cannot add the column more"):
        target.prepare(ORDERS, Shape((*columns, Column("more", "int"))), Layout(), True)


@pytest.mark.parametrize("through", ["a view of a view", "a partition", "the table it is a partition of", "a child"])
def test_nor_can_one_that_reads_it_through_something_else(server: Server, target: PostgresTarget, through: str) -> None:
    written = ORDERS
    with psycopg.connect(server.secret, autocommit=True) as connection:
        if through == "a view of a view":
            connection.execute("CREATE VIEW shop.inner AS SELECT n FROM shop.orders")
            connection.execute("CREATE VIEW shop.seen AS SELECT count(*) AS n FROM shop.inner")
        elif through == "a child":
            connection.execute("CREATE TABLE shop.seen () INHERITS (shop.orders)")
        else:
            connection.execute("CREATE TABLE shop.whole (n int, padding text) PARTITION BY RANGE (n)")
            connection.execute("ALTER TABLE shop.whole ATTACH PARTITION shop.orders FOR VALUES FROM (1) TO (100000)")
            read, written = ("orders", TableName("shop.whole")) if through == "a partition" else ("whole", ORDERS)
            connection.execute(f"CREATE VIEW shop.seen AS SELECT n FROM shop.{read}")
    columns = (Column("n", "int"), Column("padding", "string"))
    more = Shape((*columns, Column("more", "int")))
    target.read(TableName("shop.seen"), at=0)
    target.prepare(written, Shape(columns), Layout(), True)  # nothing is to be added
    with pytest.raises(ResultRefused, match=rf"this run reads {written.name} itself, so it cannot add the column more"):
        target.prepare(written, more, Layout(), True)


def test_a_column_may_be_added_to_a_table_beside_those_that_are_read(server: Server, target: PostgresTarget) -> None:
    """A materialized view has rows of its own: what it was made from is not read."""
    with psycopg.connect(server.secret, autocommit=True) as connection:
        connection.execute("CREATE MATERIALIZED VIEW shop.seen AS SELECT n FROM shop.orders")
        connection.execute("CREATE TABLE shop.other (n int)")
    target.read(TableName("shop.seen"), at=0)
    target.read(TableName("shop.other"), at=0)
    columns = (Column("n", "int"), Column("padding", "string"), Column("more", "int"))
    assert target.prepare(ORDERS, Shape(columns), Layout(), True).exists
