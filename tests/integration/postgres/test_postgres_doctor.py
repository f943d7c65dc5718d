"""What `twice doctor` says of a real server: as a connection, and as the ledger's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from twice.engine.session.doctor import Check
from twice.ledgers.ledger import Ledger
from twice.project.doctor import doctor

TOML = """
project = "shop"
ledger = "${env:LEDGER_URL}"

[connections.postgres]
url = "${env:SHOP_URL}"
"""


def checks(shop: Path) -> dict[str, Check]:
    return {check.name: check for check in doctor(shop, None, deep=False)}


@pytest.fixture
def shop(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text(TOML)
    monkeypatch.setenv("LEDGER_URL", database)
    monkeypatch.setenv("SHOP_URL", database)
    return tmp_path


def test_a_server_that_answers_is_named_without_its_secrets_and_its_clock_compared(shop: Path, database: str) -> None:
    found = checks(shop)
    place = f"postgresql://127.0.0.1:{database.rpartition(':')[2]}"
    assert found["connection postgres"] == Check("connection postgres", True, f"PostgreSQL 18 answers at {place}")
    assert found["ledger"].ok and found["ledger"].detail.startswith("none yet: the first run makes postgresql://")
    assert "***" in found["ledger"].detail
    Ledger.open(database).close()
    found = checks(shop)
    assert found["ledger"].detail.endswith(", up to date")
    assert found["clock"].ok and found["clock"].detail.endswith("; the ledger's agrees")


def test_a_wrong_password_and_a_missing_database_are_problems_with_a_way_out(
    shop: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", postgres.url("postgres", password="hunter2"))
    monkeypatch.setenv("LEDGER_URL", postgres.url("no_such_database"))
    found = checks(shop)
    for name, says in (("connection postgres", "password authentication failed"), ("ledger", "no_such_database")):
        assert not found[name].ok and says in found[name].detail and found[name].fix
    assert "hunter2" not in str(found)
