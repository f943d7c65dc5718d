"""The SQLite ledger keeps every promise of a ledger, and its own: files, locks, first openings."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import delete
from tests.contracts import code_parts_suite, environment_suite, look_suite, prune_suite
from tests.contracts import ledger_model as model
from tests.contracts import ledger_suite as suite

from twice.ledgers.database.schema import metadata
from twice.ledgers.ledger import Ledger


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


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


class SqliteMachine(model.LedgerMachine):
    def url_in(self, folder: Path) -> str:
        return f"sqlite:///{folder}/ledger.db"


TestAgainstTheModel = SqliteMachine.TestCase
TestAgainstTheModel.settings = model.SETTINGS


class LongMachine(SqliteMachine):
    """The same, for longer."""


TestLongAgainstTheModel = pytest.mark.long(LongMachine.TestCase)
TestLongAgainstTheModel.settings = model.LONG


def test_a_fence_is_never_given_twice_even_if_its_attempt_is_deleted(url: str) -> None:
    ledger = Ledger.open(url)
    fences = []
    for number in range(3):
        fences.append(suite.claim(ledger, str(number)).fence)
        with ledger._engine.begin() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(delete(table))
    ledger.close()
    assert fences == [1, 2, 3]


class TestOpening(suite.OpeningSuite):
    @pytest.fixture
    def fresh(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/fresh{{step}}.db"
