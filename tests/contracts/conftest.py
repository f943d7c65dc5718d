"""A ledger without entries on each database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from twice.ledgers.ledger import Ledger


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[dict[str, str]]:
    """Ledgers without entries, to be copied: cheaper than migrating for each test."""
    urls = {
        "sqlite": f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db",
        "postgres": postgres.fresh_database(),
    }
    for url in urls.values():
        Ledger.open(url).close()
    yield urls
    postgres.drop(urls["postgres"])


@pytest.fixture(params=["sqlite", "postgres"])
def either(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer, migrated: dict[str, str]
) -> Iterator[str]:
    if request.param == "sqlite":
        shutil.copy(migrated["sqlite"].removeprefix("sqlite:///"), tmp_path / "ledger.db")
        yield f"sqlite:///{tmp_path}/ledger.db"
        return
    copy = postgres.fresh_database(template=migrated["postgres"])
    yield copy
    postgres.drop(copy)
