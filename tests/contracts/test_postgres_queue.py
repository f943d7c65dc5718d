"""Queues and inboxes on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import Connection, text
from tests.contracts import queue_suite as suite
from tests.postgres_server import PostgresServer

from twice import Inbox, WorkQueue
from twice.errors import EnvironmentProblem, UsageError
from twice.queues.item import Item, ItemStatus


@pytest.fixture
def url(database: str) -> str:
    return database


class TestPut(suite.PutSuite):
    pass


class TestForget(suite.ForgetSuite):
    pass


class TestClaim(suite.ClaimSuite):
    def test_a_claim_passes_over_rows_that_another_transaction_has_locked(self, queue: WorkQueue, url: str) -> None:
        """Without SKIP LOCKED one slow worker makes all the others wait."""
        queue.put("a")
        queue.put("b")
        with psycopg.connect(url) as holder:
            holder.execute("SELECT id FROM twice_items WHERE id = 'a' FOR UPDATE")
            got: list[str] = []
            thread = threading.Thread(target=lambda: got.append(suite.claimed(queue).id))
            thread.start()
            thread.join(3)
            waited = thread.is_alive()
            holder.rollback()
        thread.join(30)
        assert (got, waited) == (["b"], False)

    def test_an_item_in_its_handlers_hands_is_not_taken_even_after_its_lease(
        self, queues: Callable[..., WorkQueue], effects: Callable[[], list[str]]
    ) -> None:
        slow, quick = queues(lease=timedelta(milliseconds=500)), queues()
        slow.put("a")
        item = suite.claimed(slow)

        def handle(connection: Connection) -> None:
            connection.execute(text("SELECT pg_sleep(0.7)"))
            assert quick.claim() is None
            suite.effect(item)(connection)

        assert slow.complete(item, handle)
        assert effects() == ["a"]


class TestComplete(suite.CompleteSuite):
    @pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK"])
    def test_a_handler_that_ends_the_transaction_in_sql_is_reported_too(self, queue: WorkQueue, word: str) -> None:
        queue.put("a")
        with pytest.raises(UsageError, match="the handler committed or rolled back itself"):
            queue.complete(suite.claimed(queue), lambda connection: connection.execute(text(word)))

    def test_a_handler_silent_for_longer_than_its_lease_counts_as_dead(
        self, queues: Callable[..., WorkQueue], effects: Callable[[], list[str]]
    ) -> None:
        """A stopped process must not keep its item for ever; when it wakes, nothing of it was written."""
        stopped, other = queues(lease=timedelta(milliseconds=200)), queues()
        stopped.put("a")

        def sleeps(item: Item, connection: Connection) -> None:
            suite.effect(item)(connection)
            deadline = threading.Event()
            while (found := other.claim()) is None:  # until the server has given up on the other one
                deadline.wait(0.05)
            other.complete(found, suite.effect(found))

        worked = stopped.work(sleeps)
        assert (worked.done, worked.failed) == (0, 1)
        assert effects() == ["a"]
        assert other.counts()[ItemStatus.DONE] == 1


class TestFail(suite.FailSuite):
    pass


class TestInbox(suite.InboxSuite):
    def test_the_connection_lost_in_mid_handler_leaves_nothing_and_the_message_is_handled_later(
        self, inbox: Inbox, effects: Callable[[], list[str]]
    ) -> None:
        def cut(connection: Connection) -> None:
            suite.effect("m1")(connection)
            own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with inbox.connect() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": own})
            connection.execute(text("SELECT 1"))

        with pytest.raises(Exception, match="terminating connection|closed|consuming input"):
            inbox.once("m1", b"x", cut)
        assert effects() == []
        assert inbox.once("m1", b"x", suite.effect("m1"))
        assert effects() == ["m1"]


def test_a_wrong_password_is_reported_without_it(postgres: PostgresServer) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        WorkQueue(postgres.url("postgres", password="hunter2"), "invoices")
    assert "the queue's server refused this user and password" in str(caught.value)
    assert "hunter2" not in str(caught.value)
