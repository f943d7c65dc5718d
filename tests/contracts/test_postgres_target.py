"""PostgreSQL keeps every promise, with rows that come from this process: no JVM."""

from __future__ import annotations

import pytest
from tests.contracts.append_suite import AppendSuite
from tests.contracts.exchange_suite import ExchangeSuite
from tests.contracts.postgres_harness import PostgresHarness
from tests.contracts.target_suite import TargetSuite
from tests.contracts.upsert_suite import UpsertSuite


class TestPostgresTarget(TargetSuite, UpsertSuite, AppendSuite, ExchangeSuite):
    @pytest.fixture
    def harness(self, one_database: str) -> PostgresHarness:
        harness = PostgresHarness(one_database)
        harness.ask("DROP SCHEMA IF EXISTS shop, twice CASCADE")
        return harness
