"""PostgreSQL keeps every promise, with rows that come from this process: no JVM."""

from __future__ import annotations

import pytest
from tests.contracts.postgres_house import PostgresHouse
from tests.contracts.target_suite import TargetSuite


class TestPostgresTarget(TargetSuite):
    @pytest.fixture
    def house(self, database: str) -> PostgresHouse:
        return PostgresHouse(database)
