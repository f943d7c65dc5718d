"""Queues and inboxes in a SQLite file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from tests.contracts import queue_suite as suite

from twice import Inbox, WorkQueue
from twice.errors import EnvironmentProblem, UsageError


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
    @pytest.mark.parametrize("word", ["COMMIT", "end transaction;", "/* now */ ROLLBACK", "-- now\nCommit"])
    @pytest.mark.parametrize("goes_on", [False, True], ids=["and returns", "and goes on"])
    def test_a_handler_that_ends_the_transaction_in_sql_is_not_told_that_nothing_was_written(
        self, queue: WorkQueue, effects: Callable[[], list[str]], word: str, goes_on: bool
    ) -> None:
        queue.put("a")

        def ends(connection: Connection) -> None:
            suite.effect("before")(connection)
            connection.execute(text(word))
            if goes_on:
                suite.effect("after")(connection)

        with pytest.raises(UsageError, match="the handler committed or rolled back itself") as error:
            queue.complete(suite.claimed(queue), ends)
        assert "The work may be half done" in str(error.value)
        assert effects() == ([] if "ROLLBACK" in word else ["before"])

    def test_a_savepoint_that_is_rolled_back_in_sql_ends_no_transaction(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        queue.put("a")

        def tries(connection: Connection) -> None:
            with suppress(IntegrityError), connection.begin_nested():
                connection.execute(text("INSERT INTO effects VALUES (NULL)"))
            suite.effect("a")(connection)

        queue.complete(suite.claimed(queue), tries)
        assert effects() == ["a"]

    def test_an_earlier_end_in_sql_does_not_count_for_a_transaction_that_the_database_undoes(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        """Both on one connection of the pool."""
        with queue.connect() as connection:
            connection.execute(text("COMMIT"))
        queue.put("a")
        with pytest.raises(UsageError, match=suite.UNDONE):
            queue.complete(suite.claimed(queue), suite.careless("a"))
        assert effects() == []


class TestFail(suite.FailSuite):
    pass


class TestInbox(suite.InboxSuite):
    pass


def test_a_database_that_cannot_be_used_is_reported_as_what_it_is_for() -> None:
    with pytest.raises(EnvironmentProblem, match="the queue cannot live in 'mysql'"):
        WorkQueue("mysql://host/db", "invoices")
    with pytest.raises(EnvironmentProblem, match="the inbox would forget everything"):
        Inbox("sqlite://", "orders")
