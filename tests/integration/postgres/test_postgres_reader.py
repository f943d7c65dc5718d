"""A table on a server looked at without an engine: in one snapshot, by the server's own driver, and nothing is written.
That its answers are the target's, every contract test asks (tests/contracts/postgres_harness.py)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.contracts.postgres_harness import PostgresHarness, staged
from tests.contracts.target_suite import DAY, REVENUE, commit, plan_of

from twice.core.ports import Landed, NeedsEngine, Target
from twice.core.task import TableName
from twice.targets.postgres.reader import PostgresReader
from twice.targets.postgres.server.server import Server

(TOKEN,) = plan_of(DAY).token_names


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    return PostgresHarness(database)


@pytest.fixture
def reader(harness: PostgresHarness) -> Iterator[PostgresReader]:
    with closing(PostgresReader(Server("postgres", harness.url, harness.limits))) as opened:
        yield opened


def publish(harness: PostgresHarness, attempt: str, generation: int) -> Target:
    target: Target
    target, rows = staged(harness, attempt)
    assert isinstance(commit(target, rows, {TOKEN: generation - 1}), Landed)
    return target


def connections(harness: PostgresHarness) -> int:
    ((number,),) = harness.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twice'")
    return int(number)


def test_all_questions_are_asked_in_one_snapshot_and_one_connection(
    harness: PostgresHarness, reader: PostgresReader
) -> None:
    target = publish(harness, "first", 1)
    assert reader.published(REVENUE, [TOKEN]).generations == {TOKEN: 1}
    publish(harness, "second", 2)
    assert target.published(REVENUE, [TOKEN]).generations == {TOKEN: 2}
    assert reader.published(REVENUE, [TOKEN]).generations == {TOKEN: 1}
    assert reader.tokens(REVENUE, "twice/")[TOKEN].generation == 1
    assert reader.provenance(REVENUE, TOKEN, 2) is None
    assert connections(harness) == 1


def test_it_writes_nothing(harness: PostgresHarness, reader: PostgresReader) -> None:
    publish(harness, "first", 1)
    reader.published(REVENUE, [TOKEN])
    with pytest.raises(NeedsEngine, match="read-only"), reader._looking(REVENUE) as connection:
        connection.execute("DELETE FROM shop.revenue")


def test_a_table_that_is_missing_is_left_to_the_full_way(reader: PostgresReader) -> None:
    for ask in (
        lambda table: reader.published(table, [TOKEN]),
        lambda table: reader.tokens(table, "twice/"),
        lambda table: reader.provenance(table, TOKEN, 1),
        lambda table: reader.touched(table, 0, None),
    ):
        with pytest.raises(NeedsEngine, match="no table"):
            ask(TableName.parse("postgres:shop.nothing"))


def test_what_the_server_refuses_is_left_to_the_full_way(harness: PostgresHarness, reader: PostgresReader) -> None:
    publish(harness, "first", 1)
    harness.ask("ALTER TABLE twice.tokens RENAME TO elsewhere")
    for _ in range(2):  # the second time the transaction is broken already
        with pytest.raises(NeedsEngine, match="could not be looked at"):
            reader.published(REVENUE, [TOKEN])


def test_a_server_that_does_not_answer_is_left_to_the_full_way() -> None:
    nowhere = closing(PostgresReader(Server("postgres", "postgresql://localhost:1/none")))
    with nowhere as reader, pytest.raises(NeedsEngine, match="cannot be reached"):
        reader.published(REVENUE, [TOKEN])


def test_what_writes_or_reads_rows_is_left_to_the_full_way(reader: PostgresReader) -> None:
    for name in ("prepare", "stage", "commit", "discard", "read", "one_slice_only"):
        with pytest.raises(NeedsEngine, match=name):
            getattr(reader, name)


def test_it_loads_neither_spark_nor_arrow() -> None:
    code = "import sys, twice.targets.postgres.reader; print(*sorted({each.split('.')[0] for each in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "psycopg" in loaded
    assert {"pyspark", "py4j", "pyarrow", "adbc_driver_postgresql"}.isdisjoint(loaded)
