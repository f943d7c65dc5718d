"""Tables and tokens that were restored from a dump or copied, with PostgreSQL's own programs. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.contracts.postgres_harness import PostgresHarness
from tests.postgres_server import PostgresServer

from twice.core.ports import Column, Landed, Shape
from twice.core.slice import WHOLE
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, WritePlan

EVENTS = TableName("shop.events")
COLUMNS = (Column("id", "bigint"),)
PLAN = WritePlan(AppendRows((WHOLE,)), (WHOLE,), ("twice/p/events/whole",))


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    made = PostgresHarness(database)
    append(made, 0)
    return made


@pytest.fixture
def other(postgres: PostgresServer) -> Iterator[PostgresHarness]:
    with postgres.lent_database() as url:
        yield PostgresHarness(url)


def append(harness: PostgresHarness, expected: int) -> None:
    target, attempt = harness.target(), f"a{expected}"
    into = target.prepare(EVENTS, Shape(COLUMNS), Layout(any_partitions=True), False)
    staged = target.stage(EVENTS, harness.frame(target, COLUMNS, [(expected,)]), PLAN, attempt, into=into)
    app = PLAN.token_names[0]
    assert isinstance(target.commit(staged, {app: expected}, CommitNote(attempt, "run", {app: expected + 1})), Landed)


def published(harness: PostgresHarness) -> list[int]:
    return list(harness.target().published(EVENTS, PLAN.token_names).generations.values())


def recreated(harness: PostgresHarness) -> None:
    harness.ask("DROP TABLE shop.events")
    harness.ask("CREATE TABLE shop.events (id bigint)")


def test_a_dump_that_is_restored_into_its_own_database_keeps_tables_and_tokens_together(
    harness: PostgresHarness, postgres: PostgresServer
) -> None:
    postgres.restore(harness.url, postgres.dump(harness.url, "--clean", "--if-exists"))
    assert (published(harness), harness.ask("SELECT * FROM shop.events")) == ([1], [(0,)])


def test_a_dump_that_is_restored_into_another_database_does_too(
    harness: PostgresHarness, other: PostgresHarness, postgres: PostgresServer
) -> None:
    postgres.restore(other.url, postgres.dump(harness.url))
    assert published(other) == [1]


def test_a_table_that_is_restored_without_its_tokens_counts_as_recreated(
    harness: PostgresHarness, postgres: PostgresServer
) -> None:
    """It may be older or newer than they are."""
    postgres.restore(harness.url, postgres.dump(harness.url, "--clean", "--table=shop.events"))
    assert published(harness) == [0]


def _into_its_own(harness: PostgresHarness, other: PostgresHarness, postgres: PostgresServer) -> PostgresHarness:
    postgres.restore(harness.url, postgres.dump(harness.url, "--clean", "--if-exists"))
    return harness


def _into_another(harness: PostgresHarness, other: PostgresHarness, postgres: PostgresServer) -> PostgresHarness:
    postgres.restore(other.url, postgres.dump(harness.url))
    return other


@pytest.mark.parametrize("restored", [_into_its_own, _into_another])
def test_a_restored_table_that_was_published_to_and_is_then_recreated_has_no_tokens(
    harness: PostgresHarness,
    other: PostgresHarness,
    postgres: PostgresServer,
    restored: Callable[[PostgresHarness, PostgresHarness, PostgresServer], PostgresHarness],
) -> None:
    """From its first publish on, it is known as the table it is now."""
    there = restored(harness, other, postgres)
    append(there, 1)
    assert published(there) == [2]
    recreated(there)
    assert published(there) == [0]


def test_an_entry_from_before_knows_its_table_and_one_that_was_recreated(harness: PostgresHarness) -> None:
    """Entries once named the server, the database and the table, and not where the entries themselves lie."""
    harness.ask("UPDATE twice.tables SET place = substring(place FROM '^[0-9]+/[0-9]+/[0-9]+')")
    assert harness.ask("SELECT place ~ '^[0-9]+/[0-9]+/[0-9]+$' FROM twice.tables") == [(True,)]
    assert published(harness) == [1]
    append(harness, 1)
    assert published(harness) == [2]
    harness.ask("UPDATE twice.tables SET place = substring(place FROM '^[0-9]+/[0-9]+/[0-9]+')")
    recreated(harness)
    assert published(harness) == [0]
