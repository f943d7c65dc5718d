"""PostgreSQL keeps every promise, with rows that come from this process: no JVM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contracts.append_suite import AppendSuite
from tests.contracts.postgres_harness import PostgresHarness
from tests.contracts.target_suite import TargetSuite
from tests.contracts.upsert_suite import UpsertSuite
from tests.postgres_server import PostgresServer


@pytest.fixture(scope="module")
def emptied(postgres: PostgresServer) -> Iterator[str]:
    """One database for all of these tests: to drop two schemas takes less than to make a database."""
    url = postgres.fresh_database()
    yield url
    postgres.drop(url)


class TestPostgresTarget(TargetSuite, UpsertSuite, AppendSuite):
    @pytest.fixture
    def harness(self, emptied: str) -> PostgresHarness:
        harness = PostgresHarness(emptied)
        harness.ask("DROP SCHEMA IF EXISTS shop, twice CASCADE")
        return harness
