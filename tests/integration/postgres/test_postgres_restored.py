"""Tables and tokens that were restored from a dump or copied, with PostgreSQL's own programs. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.contracts.postgres_house import PostgresHouse
from tests.postgres_server import PostgresServer

from twice.core.ports import Column, Landed, Shape
from twice.core.slice import WHOLE
from twice.core.table.token import Note
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, Plan

EVENTS = TableName("shop.events")
COLUMNS = (Column("id", "bigint"),)
PLAN = Plan(AppendRows((WHOLE,)), (WHOLE,), ("twice/p/events/whole",))


@pytest.fixture
def house(database: str) -> PostgresHouse:
    made = PostgresHouse(database)
    append(made, 0)
    return made


@pytest.fixture
def other(postgres: PostgresServer) -> Iterator[PostgresHouse]:
    url = postgres.fresh_database()
    yield PostgresHouse(url)
    postgres.drop(url)


def append(house: PostgresHouse, expected: int) -> None:
    target, attempt = house.target(), f"a{expected}"
    into = target.prepare(EVENTS, Shape(COLUMNS), Layout(any_partitions=True), False)
    staged = target.stage(EVENTS, house.frame(target, COLUMNS, [(expected,)]), PLAN, attempt, into=into)
    app = PLAN.token_names[0]
    assert isinstance(target.commit(staged, {app: expected}, Note(attempt, "run", {app: expected + 1})), Landed)


def published(house: PostgresHouse) -> list[int]:
    return list(house.target().published(EVENTS, PLAN.token_names).generations.values())


def made_anew(house: PostgresHouse) -> None:
    house.ask("DROP TABLE shop.events")
    house.ask("CREATE TABLE shop.events (id bigint)")


def test_a_dump_that_is_restored_into_its_own_database_keeps_tables_and_tokens_together(
    house: PostgresHouse, postgres: PostgresServer
) -> None:
    postgres.restore(house.url, postgres.dump(house.url, "--clean", "--if-exists"))
    assert (published(house), house.ask("SELECT * FROM shop.events")) == ([1], [(0,)])


def test_a_dump_that_is_restored_into_another_database_does_too(
    house: PostgresHouse, other: PostgresHouse, postgres: PostgresServer
) -> None:
    postgres.restore(other.url, postgres.dump(house.url))
    assert published(other) == [1]


def test_a_table_that_is_restored_without_its_tokens_counts_as_made_anew(
    house: PostgresHouse, postgres: PostgresServer
) -> None:
    """It may be older or newer than they are."""
    postgres.restore(house.url, postgres.dump(house.url, "--clean", "--table=shop.events"))
    assert published(house) == [0]


def _into_its_own(house: PostgresHouse, other: PostgresHouse, postgres: PostgresServer) -> PostgresHouse:
    postgres.restore(house.url, postgres.dump(house.url, "--clean", "--if-exists"))
    return house


def _into_another(house: PostgresHouse, other: PostgresHouse, postgres: PostgresServer) -> PostgresHouse:
    postgres.restore(other.url, postgres.dump(house.url))
    return other


@pytest.mark.parametrize("restored", [_into_its_own, _into_another])
def test_a_restored_table_that_was_published_to_and_is_then_made_anew_has_no_tokens(
    house: PostgresHouse,
    other: PostgresHouse,
    postgres: PostgresServer,
    restored: Callable[[PostgresHouse, PostgresHouse, PostgresServer], PostgresHouse],
) -> None:
    """From its first publish on, it is known as the table it is now."""
    there = restored(house, other, postgres)
    append(there, 1)
    assert published(there) == [2]
    made_anew(there)
    assert published(there) == [0]


def test_an_entry_from_before_knows_its_table_and_one_that_was_made_anew(house: PostgresHouse) -> None:
    """Entries once named the server, the database and the table, and not where the entries themselves lie."""
    house.ask("UPDATE twice.tables SET place = substring(place FROM '^[0-9]+/[0-9]+/[0-9]+')")
    assert house.ask("SELECT place ~ '^[0-9]+/[0-9]+/[0-9]+$' FROM twice.tables") == [(True,)]
    assert published(house) == [1]
    append(house, 1)
    assert published(house) == [2]
    house.ask("UPDATE twice.tables SET place = substring(place FROM '^[0-9]+/[0-9]+/[0-9]+')")
    made_anew(house)
    assert published(house) == [0]
