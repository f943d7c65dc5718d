"""The PostgreSQL of the tests: real, one per session, restarted as a crash would."""

from __future__ import annotations

import psycopg
import pytest
from tests.postgres_server import PostgresServer


def test_it_answers_on_tcp_only_to_who_knows_the_password(postgres: PostgresServer, database: str) -> None:
    with psycopg.connect(database) as connection:
        assert connection.info.server_version >= 180000
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url("postgres", password="wrong"))


def test_what_was_committed_outlives_an_immediate_restart(postgres: PostgresServer, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    before = postgres.pid
    postgres.restart(immediate=True)
    assert postgres.pid != before
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT one FROM kept").fetchall() == [(1,)]


def test_a_database_can_be_copied(postgres: PostgresServer, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    copy = postgres.fresh_database(template=database)
    with psycopg.connect(copy) as connection:
        assert connection.execute("SELECT one FROM kept").fetchall() == [(1,)]
    postgres.drop(copy)
