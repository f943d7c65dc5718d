"""The PostgreSQL ledger keeps every promise of a ledger, by the same suite as SQLite's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import ClassVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import settings
from tests.contracts import code_parts_suite, environment_suite, look_suite, prune_suite
from tests.contracts import ledger_model as model
from tests.contracts import ledger_suite as suite
from tests.postgres_server import PostgresServer
from tests.processes.ledger_processes import MINUTE

from twice.core.ports.clock import SystemClock
from twice.ledgers.database.connect import connect, parse_url
from twice.ledgers.database.effect_tables import whole_schema
from twice.ledgers.database.schema import VERSION_TABLE
from twice.ledgers.ledger import Ledger


@pytest.fixture(scope="module")
def migrated(postgres: PostgresServer) -> Iterator[str]:
    """A ledger without entries, to be copied: cheaper than migrating for each test."""
    with postgres.lent_database() as url:
        Ledger.open(url).close()
        yield url


@pytest.fixture
def url(postgres: PostgresServer, migrated: str) -> Iterator[str]:
    with postgres.lent_database(template=migrated) as copy:
        yield copy


class TestClaims(suite.ClaimSuite):
    pass


class TestTransitions(suite.TransitionSuite):
    pass


class TestFacts(suite.FactsSuite):
    pass


class TestPublish(suite.PublishSuite):
    pass


class TestAdopt(suite.AdoptSuite):
    pass


class TestAcceptance(suite.AcceptanceSuite):
    pass


class TestHistory(suite.HistorySuite):
    pass


class TestOverview(suite.OverviewSuite):
    pass


class TestQuarantine(suite.QuarantineSuite):
    pass


class TestPrune(prune_suite.PruneSuite):
    pass


class TestLooks(look_suite.LookSuite):
    pass


class TestEnvironments(environment_suite.EnvironmentSuite):
    pass


class TestCodeParts(code_parts_suite.CodePartsSuite):
    pass


class TestRename(suite.RenameSuite):
    pass


class TestCrash(suite.CrashSuite):
    pass


class TestOpening(suite.OpeningSuite):
    @pytest.fixture
    def fresh(self, database: str) -> str:
        return database


@pytest.fixture(scope="module", autouse=True)
def _server_for_the_model(postgres: PostgresServer, migrated: str) -> None:
    PostgresMachine.server, PostgresMachine.template = postgres, migrated


class PostgresMachine(model.LedgerMachine):
    server: ClassVar[PostgresServer]
    template: ClassVar[str]

    def url_in(self, folder: Path) -> str:
        """One database per folder: the machine asks for the same one again."""
        note = folder / "url"
        if not note.exists():
            note.write_text(self.server.fresh_database(self.template))
        return note.read_text()

    def teardown(self) -> None:
        url = self.url_in(Path(self.folder.name)) if hasattr(self, "ledger") else None
        super().teardown()
        if url:
            self.server.drop(url)


TestAgainstTheModel = PostgresMachine.TestCase
# Fewer than on SQLite, where an example costs a third: the calls are the same.
TestAgainstTheModel.settings = settings(model.SETTINGS, max_examples=4)


def test_alembic_sees_nothing_left_to_migrate(url: str) -> None:
    engine = connect(parse_url(url))
    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
        left = compare_metadata(MigrationContext.configure(connection, opts=options), whole_schema())
    engine.dispose()
    assert left == []


def test_the_slices_that_claims_lock_are_sorted_by_bytes_whatever_the_locale(
    url: str, postgres: PostgresServer
) -> None:
    locked = "('twice_attempts', 'twice_slices', 'twice_leases', 'twice_runs')"
    collations = postgres.execute(
        "SELECT DISTINCT collation_name FROM information_schema.columns "
        f"WHERE table_name IN {locked} AND column_name IN ('task', 'label')",
        url.rpartition("/")[2],
    )
    assert collations == [("C",)]


class TestClock:
    """The ledger's clock is the database's. A host whose clock is an hour off does no harm."""

    @pytest.mark.parametrize("hours", [-1, 1])
    def test_a_host_whose_clock_is_off_neither_steals_a_lease_nor_holds_one_longer(
        self, url: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, hours: int
    ) -> None:
        right, wrong = Ledger.open(url), Ledger.open(url)
        suite.claim(right, "right", "a")
        host_now = datetime.now(timezone.utc)
        monkeypatch.setattr(SystemClock, "now", lambda _: host_now + timedelta(hours=hours))
        assert suite.refused(wrong, "wrong", "a").attempt == "right"
        suite.claim(wrong, "wrong", "b")
        record = right.attempt("wrong")
        assert record is not None
        assert record.lease_until is not None
        (server_now,) = postgres.execute("SELECT clock_timestamp()")[0]
        assert timedelta(seconds=30) < record.lease_until - server_now <= MINUTE
        assert abs(record.started - server_now) < MINUTE
        assert abs(wrong.now() - server_now) < MINUTE
        right.close()
        wrong.close()

    def test_an_expired_lease_is_taken_over_by_the_servers_clock(self, url: str) -> None:
        ledger = Ledger.open(url)
        suite.claim(ledger, "one", lease=timedelta(0))
        suite.claim(ledger, "two")
        ledger.close()
