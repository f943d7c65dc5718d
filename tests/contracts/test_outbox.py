"""The outbox keeps its promises on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contracts.outbox_suite import OutboxSuite


class TestOnSqlite(OutboxSuite):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/ledger.db"


class TestOnPostgres(OutboxSuite):
    @pytest.fixture
    def url(self, database: str) -> str:
        return database
