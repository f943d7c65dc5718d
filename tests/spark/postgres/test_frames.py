"""Spark's frames in and out of a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException

from twice.core.failure.transience import Nature, judge
from twice.core.ports import Column, Landed, Shape
from twice.core.scope import Whole
from twice.core.table.token import CommitNote, token_name
from twice.core.task import TableName
from twice.core.write import Layout, ReplaceRows, WritePlan
from twice.engine.causes import signs
from twice.errors import ResultRefused
from twice.targets.active_session import as_active_session
from twice.targets.postgres.frames.spark import INPUT, SparkFrames
from twice.targets.postgres.read.snapshot import Snapshots
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.target import PostgresTarget

TABLE = TableName("shop.kinds", "postgres")
UTC = timezone.utc


@pytest.fixture
def server(database: str) -> Server:
    return Server("postgres", database, Limits(lock=20, statement=100))


@pytest.fixture
def target(server: Server, session: Any) -> Iterator[PostgresTarget]:
    snapshots = Snapshots(server)
    yield PostgresTarget(server, SparkFrames(session, 2), snapshots)
    snapshots.close()


def publish(target: PostgresTarget, frame: Any, attempt: str = "a") -> Landed:
    plan = WritePlan(ReplaceRows((Whole().only,)), (Whole().only,), (token_name("p", "kinds", "all"),))
    columns = tuple(Column(field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    into = target.prepare(TABLE, Shape(columns), Layout(), False)
    expected = target.published(TABLE, plan.token_names).generations
    staged = target.stage(TABLE, frame, plan, attempt, into=into)
    end = target.commit(staged, expected, CommitNote(attempt, "run", {app: g + 1 for app, g in expected.items()}))
    assert isinstance(end, Landed)
    return end


KINDS: dict[str, tuple[str, list[Any]]] = {
    "yes": ("boolean", [True, None]),
    "tiny": ("smallint", [-3, None]),
    "number": ("int", [2**31 - 1, -(2**31)]),
    "long": ("bigint", [2**63 - 1, None]),
    "single": ("float", [1.5, float("inf")]),
    "real": ("double", [0.1, float("-inf")]),
    "money": ("decimal(12,2)", [Decimal("1234567890.12"), Decimal("-0.01")]),
    "huge": ("decimal(38,0)", [Decimal("9" * 38), None]),
    "text": ("string", ["ä \\N \t\n\"'", ""]),
    "bytes": ("binary", [bytearray(b"\0\xff"), None]),
    "day": ("date", [date(1, 1, 1), date(9999, 12, 31)]),
    "instant": ("timestamp", [datetime(1960, 2, 29, 1, 2, 3, 4, UTC), None]),
    "local": ("timestamp_ntz", [datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    "numbers": ("array<int>", [[1, None, 3], []]),
    "texts": ("array<string>", [["a,b", '"', None], None]),
    "prices": ("array<decimal(10,2)>", [[Decimal("1.20"), None], []]),
}


def test_every_type_comes_back_as_it_went(target: PostgresTarget, session: Any) -> None:
    schema = ", ".join(f"{name} {type_}" for name, (type_, _) in KINDS.items())
    rows = [tuple(values[at] for _, values in KINDS.values()) for at in range(2)]
    frame = session.createDataFrame(rows, schema)
    publish(target, frame)
    back = target.read(TABLE)
    assert back.schema.simpleString() == frame.schema.simpleString()
    assert sorted(map(repr, back.collect())) == sorted(map(repr, frame.collect()))


def test_not_a_number_comes_back_as_it_went(target: PostgresTarget, session: Any) -> None:
    publish(target, session.sql("SELECT double('NaN') AS real, float('NaN') AS single, 1 AS one"))
    row = target.read(TABLE).selectExpr("isnan(real)", "isnan(single)").first()
    assert tuple(row) == (True, True)


def test_what_the_server_says_to_a_task_is_reported_to_the_user(target: PostgresTarget, session: Any) -> None:
    publish(target, session.sql("SELECT 1 AS id, 'kept' AS note"))
    with pytest.raises(ResultRefused, match="column note has text with the character NUL"):
        publish(target, session.sql("SELECT 1 AS id, concat('a', char(0)) AS note"), "b")
    assert [tuple(row) for row in target.read(TABLE).collect()] == [(1, "kept")]


def orders(database: str, rows: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop")
        connection.execute(
            "CREATE TABLE shop.kinds AS SELECT n AS order_id, DATE '2026-06-01' + (n %% 10) AS order_date, "
            "TIMESTAMPTZ '2026-06-01 00:00Z' + n * interval '1 second' AS updated_at, (n %% 1000) / 100.0 AS amount, "
            "'{\"n\": 1}'::jsonb AS document, gen_random_uuid() AS id, repeat('x', 100) AS padding "
            "FROM generate_series(1, %s) n",
            [rows],
        )


def test_a_large_table_is_read_in_parallel_in_one_snapshot(target: PostgresTarget, session: Any, database: str) -> None:
    orders(database, 40_000)
    frame = target.read(TABLE, at=0)
    with psycopg.connect(database, autocommit=True) as connection:  # after the snapshot, before the job
        connection.execute("DELETE FROM shop.kinds WHERE order_id % 2 = 0")
        connection.execute("INSERT INTO shop.kinds SELECT * FROM shop.kinds LIMIT 1000")
        connection.execute("SET lock_timeout = '100ms'")
        with pytest.raises(
            psycopg.errors.LockNotAvailable
        ):  # it would take rows away from a part that is yet to be read
            connection.execute("ALTER TABLE shop.kinds ALTER COLUMN order_id TYPE numeric")
    with as_active_session(session):
        assert frame.rdd.getNumPartitions() == 2
    found = frame.selectExpr("count(*)", "count(DISTINCT order_id)", "sum(order_id)").first()
    assert tuple(found) == (40_000, 40_000, 40_000 * 40_001 // 2)
    assert tuple(target.read(TABLE, at=0).selectExpr("count(*)").first()) == (40_000,)


def test_a_part_that_is_not_read_from_the_table_the_run_opened_fails_for_a_passing_reason(
    target: PostgresTarget, session: Any, database: str
) -> None:
    orders(database, 10)
    frame = target.read(TABLE, at=0)
    target._snapshots.close()  # as if the line had been cut
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("VACUUM FULL shop.kinds")
    with pytest.raises(PySparkException) as refused, as_active_session(session):
        frame.collect()
    assert "the snapshot in which shop.kinds was being read is gone" in str(refused.value)
    assert judge(signs(refused.value)).nature is Nature.TRANSIENT


def test_the_cut_of_an_input_is_made_by_the_server(target: PostgresTarget, session: Any, database: str) -> None:
    from twice.engine.frames.frames import cut

    orders(database, 1000)
    start = datetime(2026, 6, 3, tzinfo=UTC)
    frame = target.read(TABLE, at=0)
    for column, low, high in (
        ("order_date", start, start + timedelta(days=1)),
        ("updated_at", datetime(2026, 6, 1, 0, 0, 10, tzinfo=UTC), datetime(2026, 6, 1, 0, 1, 50, tzinfo=UTC)),
    ):
        day = cut(frame, column, low, high, None)
        plan = day._jdf.queryExecution().executedPlan().toString()
        assert "Filter (" not in plan, plan  # Spark has nothing left to filter
        assert day.count() == 100


def test_what_spark_does_not_know_comes_as_text(target: PostgresTarget, session: Any, database: str) -> None:
    orders(database, 1)
    row = target.read(TABLE).first()
    assert row.document == '{"n": 1}'
    assert len(row.id) == 36
    assert row.amount == Decimal("0.01")
    assert dict(target.read(TABLE).dtypes)["amount"] == "decimal(38,18)"


def test_a_password_is_in_no_plan(target: PostgresTarget, session: Any, database: str) -> None:
    from tests.postgres_server import PASSWORD, QUOTED_PASSWORD

    orders(database, 1)
    frame = target.read(TABLE)
    shown = frame._jdf.queryExecution().toString() + str(frame._jdf.queryExecution().analyzed().toJSON())
    assert frame._jdf.queryExecution().analyzed().options().get(INPUT).startswith("postgres:shop.kinds at snapshot ")
    assert PASSWORD not in shown
    assert QUOTED_PASSWORD not in shown


def test_a_read_is_recorded_as_unversioned_with_its_snapshot(
    target: PostgresTarget, session: Any, database: str
) -> None:
    from twice.engine.lineage.leaves import leaves

    orders(database, 10)
    frame = target.read(TABLE, at=0)
    (leaf,) = leaves(frame.where("order_date > DATE'2026-06-02'").groupBy("order_date").count())
    assert (leaf.kind, leaf.identity) == ("postgres", None)
    assert leaf.name.startswith("shop.kinds at snapshot ")
