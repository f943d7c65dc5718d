"""Queues and inboxes in a SQLite file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contracts import queue_suite as suite

from twice import Inbox, WorkQueue
from twice.errors import EnvironmentProblem


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


class TestPut(suite.PutSuite):
    pass


class TestForget(suite.ForgetSuite):
    pass


class TestClaim(suite.ClaimSuite):
    pass


class TestComplete(suite.CompleteSuite):
    pass


class TestFail(suite.FailSuite):
    pass


class TestInbox(suite.InboxSuite):
    pass


def test_a_database_that_cannot_be_used_is_reported_as_what_it_is_for() -> None:
    with pytest.raises(EnvironmentProblem, match="the queue cannot live in 'mysql'"):
        WorkQueue("mysql://host/db", "invoices")
    with pytest.raises(EnvironmentProblem, match="the inbox would forget everything"):
        Inbox("sqlite://", "orders")
