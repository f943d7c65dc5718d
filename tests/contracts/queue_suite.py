"""What queues and inboxes promise on every database. A test module gives `url` (of a fresh database)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from twice import Inbox, Retry, WorkQueue
from twice.errors import BodyDiffers, LeaseLost, UsageError
from twice.queues.item import Item, ItemStatus

PENDING, PROCESSING, DONE, FAILED = ItemStatus
AT_ONCE = timedelta(0)
"""A lease that has ended when it begins: as if its worker had been stopped for long."""

PATIENT = Retry(attempts=5, first=AT_ONCE, total=timedelta(days=1))


class DatabaseSuite:
    @pytest.fixture
    def effects(self, url: str, queue: WorkQueue) -> Callable[[], list[str]]:
        """A table for what handlers do, without any key: a second effect would be seen."""
        with queue.connect() as connection:
            connection.execute(text("CREATE TABLE effects (item TEXT NOT NULL)"))

        def read() -> list[str]:
            with queue.connect() as connection:
                return list(connection.execute(text("SELECT item FROM effects ORDER BY item")).scalars())

        return read

    @pytest.fixture
    def queues(self, url: str) -> Iterator[Callable[..., WorkQueue]]:
        """Further queues on the same database, as other processes have them."""
        opened: list[WorkQueue] = []

        def another(name: str = "invoices", **options: Any) -> WorkQueue:
            opened.append(WorkQueue(url, name, **{"retry": PATIENT, **options}))
            return opened[-1]

        yield another
        for queue in opened:
            queue.close()

    @pytest.fixture
    def queue(self, queues: Callable[..., WorkQueue]) -> WorkQueue:
        return queues()


def effect(of: Item | str) -> Callable[[Connection], object]:
    name = of if isinstance(of, str) else of.id
    return lambda connection: connection.execute(text("INSERT INTO effects VALUES (:item)"), {"item": name})


def careless(of: Item | str) -> Callable[[Connection], object]:
    """As people write it: a customer that may be there already. The error is swallowed, and the database has undone the
    whole transaction: PostgreSQL always, SQLite with OR ROLLBACK."""

    def handle(connection: Connection) -> None:
        effect(of)(connection)
        add = "INSERT OR ROLLBACK" if connection.dialect.name == "sqlite" else "INSERT"
        connection.execute(text("CREATE TABLE customers (id INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO customers VALUES (1)"))
        with suppress(IntegrityError):
            connection.execute(text(f"{add} INTO customers VALUES (1)"))

    return handle


def commits_in_the_driver(of: Item | str) -> Callable[[Connection], object]:
    """As a library does that is handed the driver's connection: `executescript` of sqlite3 begins with a commit."""

    def handle(connection: Connection) -> None:
        effect(of)(connection)
        connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]

    return handle


def rolls_back_in_the_driver(of: Item | str) -> Callable[[Connection], object]:
    """As a library does that tries something, and then goes on."""

    def handle(connection: Connection) -> None:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        driver.rollback()
        cursor = driver.cursor()
        cursor.execute("BEGIN") if connection.dialect.name == "sqlite" else None
        cursor.execute(f"INSERT INTO effects VALUES ('{of if isinstance(of, str) else of.id}')")

    return handle


UNDONE = r"the database has undone the whole transaction.*Nothing of it was written.*connection\.begin_nested\(\)"
FOR_SURE = UNDONE.replace("written.*", r"written\. Use ")
"""The database was asked."""


def handler(item: Item, connection: Connection) -> None:
    effect(item)(connection)


def claimed(queue: WorkQueue) -> Item:
    item = queue.claim()
    assert item is not None
    return item


class PutSuite(DatabaseSuite):
    def test_an_item_is_pending_with_its_body(self, queue: WorkQueue) -> None:
        assert queue.put("a", {"total": 4, "lines": [1, None, "é"]})
        found = queue.item("a")
        assert found is not None
        assert (found.status, found.attempts, found.body) == (PENDING, 0, {"total": 4, "lines": [1, None, "é"]})
        assert queue.item("b") is None

    def test_the_same_item_again_changes_nothing_whatever_became_of_it(self, queue: WorkQueue) -> None:
        assert queue.put("a", {"x": 1, "y": 2})
        assert not queue.put("a", {"y": 2, "x": 1})
        item = claimed(queue)
        assert not queue.put("a", {"x": 1, "y": 2})
        queue.complete(item)
        assert not queue.put("a", {"x": 1, "y": 2})
        assert queue.claim() is None
        assert queue.counts() == {PENDING: 0, PROCESSING: 0, DONE: 1, FAILED: 0}

    def test_the_same_id_with_another_body_is_an_error(self, queue: WorkQueue) -> None:
        queue.put("a", 1)
        with pytest.raises(BodyDiffers, match=r"queue invoices\[a\]: this id was put before with another body"):
            queue.put("a", 2)
        assert claimed(queue).body == 1

    @pytest.mark.parametrize("bad", ["", "   ", "\n", "a\x00b", "x" * 501, "\ud800", None, 7])
    def test_ids_that_identify_nothing_are_refused_empty_strings_pass_every_null_check(
        self, queue: WorkQueue, bad: Any
    ) -> None:
        with pytest.raises(UsageError, match="the item's id"):
            queue.put(bad)

    def test_a_body_that_is_no_json_is_refused(self, queue: WorkQueue) -> None:
        for bad in ({1, 2}, float("nan"), object()):
            with pytest.raises(UsageError, match="the item's body is not JSON"):
                queue.put("a", bad)

    def test_queues_share_a_database_and_nothing_else(self, queues: Callable[..., WorkQueue]) -> None:
        one, two = queues("one"), queues("two")
        one.put("a", 1)
        assert two.put("a", 2)
        assert claimed(two).body == 2
        assert two.claim() is None
        assert claimed(one).body == 1


class ForgetSuite(DatabaseSuite):
    def test_only_done_items_are_forgotten_and_only_when_they_are_old_enough(
        self, queues: Callable[..., WorkQueue]
    ) -> None:
        queue, other = queues(), queues("mails")
        for id_ in ("done", "dead", "waiting"):
            queue.put(id_)
        other.put("done")
        for each in (queue, other):
            each.work(lambda item, _: 1 / 0 if item.id == "dead" else None, limit=2 if each is queue else 1)
        assert queue.forget(timedelta(days=1)) == 0
        assert queue.forget(-timedelta(days=1)) == 1
        assert queue.forget(-timedelta(days=1)) == 0
        counts = {status: count for status, count in queue.counts().items() if count}
        assert counts == {PENDING: 1, FAILED: 1}
        assert other.counts()[DONE] == 1
        assert queue.put("done")

    def test_an_inbox_forgets_what_was_handled_long_ago(self, url: str) -> None:
        with Inbox(url, "orders") as inbox:
            assert inbox.once("1", b"body", lambda _: None)
            assert inbox.forget(timedelta(days=1)) == 0
            assert not inbox.once("1", b"body", lambda _: None)
            assert inbox.forget(-timedelta(days=1)) == 1
            assert inbox.once("1", b"body", lambda _: None)


class ClaimSuite(DatabaseSuite):
    def test_items_come_in_the_order_they_were_put(self, queue: WorkQueue) -> None:
        for name in ("b", "c", "a"):
            queue.put(name)
        assert [claimed(queue).id for _ in range(3)] == ["b", "c", "a"]
        assert queue.claim() is None

    def test_a_claimed_item_is_held_until_its_lease_ends(self, queues: Callable[..., WorkQueue]) -> None:
        short, other = queues(lease=AT_ONCE), queues()
        other.put("a")
        first = claimed(short)
        assert (first.status, first.attempts, first.fence) == (PROCESSING, 1, 1)
        second = claimed(other)
        assert (second.id, second.attempts, second.fence) == ("a", 2, 2)
        assert other.claim() is None

    def test_an_update_by_id_alone_would_let_two_workers_take_one_item(self, queues: Callable[..., WorkQueue]) -> None:
        """Sixteen claims at once on four items: each item goes out once (airflow#57618; SQLite: dbos#541)."""
        queue = queues()
        for number in range(4):
            queue.put(str(number))
        start, got = threading.Barrier(16), []

        def take() -> None:
            start.wait()
            got.append(queue.claim())

        threads = [threading.Thread(target=take) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(item.id for item in got if item) == ["0", "1", "2", "3"]

    def test_a_claim_is_not_a_lease_the_fence_is_checked_where_the_work_commits(
        self, queues: Callable[..., WorkQueue], effects: Callable[[], list[str]]
    ) -> None:
        slow, quick = queues(lease=AT_ONCE), queues()
        slow.put("a")
        late, now = claimed(slow), claimed(quick)
        with pytest.raises(LeaseLost, match=r"this claim \(fence 1\) is over: the item was claimed by another worker"):
            slow.complete(late, effect(late))
        assert quick.complete(now, effect(now))
        with pytest.raises(LeaseLost, match="the item is done. Nothing of this attempt was written"):
            slow.complete(late, effect(late))
        assert effects() == ["a"]

    def test_a_stopped_worker_that_nobody_replaced_may_still_finish(
        self, queues: Callable[..., WorkQueue], effects: Callable[[], list[str]]
    ) -> None:
        """The lease ended, but no clock decides: the item is still its own."""
        slow = queues(lease=AT_ONCE)
        slow.put("a")
        late = claimed(slow)
        assert slow.complete(late, effect(late))
        assert effects() == ["a"]

    def test_a_late_worker_can_neither_fail_renew_nor_release_the_item(self, queues: Callable[..., WorkQueue]) -> None:
        slow, quick = queues(lease=AT_ONCE), queues()
        slow.put("a")
        late, now = claimed(slow), claimed(quick)
        for act in (lambda: slow.fail(late, ValueError()), lambda: slow.renew(late), lambda: slow.release(late)):
            with pytest.raises(LeaseLost):
                act()
        assert quick.item("a") == now

    def test_renewing_holds_the_item(self, queues: Callable[..., WorkQueue]) -> None:
        short, other = queues(lease=AT_ONCE), queues()
        other.put("a")
        item = claimed(short)
        other.renew(item)
        assert other.claim() is None

    def test_a_released_item_is_due_at_once(self, queue: WorkQueue) -> None:
        queue.put("a")
        queue.release(claimed(queue))
        assert claimed(queue).id == "a"


class CompleteSuite(DatabaseSuite):
    def test_the_effect_and_the_completion_are_one_transaction(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        queue.put("a")
        item = claimed(queue)

        def half(connection: Connection) -> None:
            effect(item)(connection)
            raise RuntimeError("died half-way")

        with pytest.raises(RuntimeError, match="died half-way"):
            queue.complete(item, half)
        assert effects() == []
        found = queue.item("a")
        assert found is not None and found.status is PROCESSING
        assert queue.complete(item, effect(item))
        assert effects() == ["a"]

    def test_a_done_item_again_is_a_no_op(self, queue: WorkQueue, effects: Callable[[], list[str]]) -> None:
        queue.put("a")
        item = claimed(queue)
        assert queue.complete(item, effect(item))
        assert not queue.complete(item, effect(item))  # as after a lost reply
        assert effects() == ["a"]

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_handler_that_ends_the_transaction_by_itself_is_reported(
        self, queue: WorkQueue, effects: Callable[[], list[str]], end: str
    ) -> None:
        queue.put("a")
        with pytest.raises(UsageError, match="the handler committed or rolled back itself"):
            queue.complete(claimed(queue), lambda connection: getattr(connection, end)())

    def test_an_item_is_never_done_whose_transaction_the_database_has_undone(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        queue.put("a")
        with pytest.raises(UsageError, match=FOR_SURE):
            queue.complete(claimed(queue), careless("a"))
        queue.put("b")
        worked = queue.work(lambda item, connection: careless(item)(connection))
        assert (worked.done, worked.failed) == (0, 1)
        assert effects() == []
        assert queue.counts() == {PENDING: 0, PROCESSING: 1, DONE: 0, FAILED: 1}

    def test_what_comes_after_the_database_has_undone_the_transaction_is_not_written_either(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        """SQLite would commit each further statement on its own."""
        queue.put("a")

        def goes_on(connection: Connection) -> None:
            careless("a")(connection)
            effect("after")(connection)

        with pytest.raises(Exception, match="undone the whole transaction|transaction is aborted"):
            queue.complete(claimed(queue), goes_on)
        assert effects() == []

    @pytest.mark.parametrize("fails", [False, True], ids=["and returns", "and fails"])
    def test_a_handler_that_commits_in_the_driver_is_not_told_that_nothing_was_written(
        self, queue: WorkQueue, effects: Callable[[], list[str]], fails: bool
    ) -> None:
        queue.put("a")

        def handle(connection: Connection) -> None:
            commits_in_the_driver("a")(connection)
            if fails:
                raise RuntimeError("half-way")

        with pytest.raises(UsageError, match="the handler committed or rolled back itself") as error:
            queue.complete(claimed(queue), handle)
        assert "The work may be half done" in str(error.value)
        assert isinstance(error.value.__cause__, RuntimeError) is fails
        assert effects() == ["a"]
        assert queue.item("a").status is DONE  # type: ignore[union-attr]

    def test_an_item_is_never_done_whose_transaction_the_handler_rolled_back_in_the_driver_and_began_again(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        queue.put("a")
        with pytest.raises(UsageError, match="the handler committed or rolled back itself"):
            queue.complete(claimed(queue), rolls_back_in_the_driver("a"))
        assert effects() == []
        assert queue.item("a").status is PROCESSING  # type: ignore[union-attr]

    def test_a_transaction_of_ones_own_that_was_committed_in_the_driver_is_not_said_to_be_undone(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        with pytest.raises(UsageError) as error, queue.connect() as connection:
            commits_in_the_driver("a")(connection)
            if connection.dialect.name == "postgresql":
                careless("b")(connection)
        assert "Nothing of it was written, unless the code committed it itself." in str(error.value)
        assert effects() == ["a"]

    def test_a_transaction_of_ones_own_that_the_database_has_undone_is_an_error(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        with pytest.raises(UsageError, match=UNDONE), queue.connect() as connection:
            careless("a")(connection)
        assert effects() == []
        with queue.connect():
            pass  # nothing was asked, and nothing was undone

    def test_a_savepoint_holds_what_may_fail(self, queue: WorkQueue, effects: Callable[[], list[str]]) -> None:
        queue.put("a")

        def careful(connection: Connection) -> None:
            effect("a")(connection)
            with suppress(IntegrityError), connection.begin_nested():
                connection.execute(text("INSERT INTO effects VALUES (NULL)"))

        assert queue.complete(claimed(queue), careful)
        assert effects() == ["a"]

    def test_a_handlers_own_database_error_is_reported_as_it_is(self, queue: WorkQueue) -> None:
        queue.put("a")
        worked = queue.work(lambda item, connection: connection.execute(text("SELECT * FROM nowhere")))
        assert (worked.done, worked.failed) == (0, 1)
        assert "nowhere" in (queue.dead()[0].error or "")


class FailSuite(DatabaseSuite):
    def test_a_transient_error_is_tried_again_and_a_permanent_one_is_a_dead_letter(self, queue: WorkQueue) -> None:
        queue.put("a")
        assert queue.fail(claimed(queue), ConnectionResetError("cut")) is PENDING
        assert queue.item("a").error == "ConnectionResetError: cut"  # type: ignore[union-attr]
        assert queue.fail(claimed(queue), ValueError("no such customer")) is FAILED
        assert queue.claim() is None
        assert [(item.id, item.attempts, item.error) for item in queue.dead()] == [
            ("a", 2, "ValueError: no such customer")
        ]

    def test_after_the_last_attempt_it_is_a_dead_letter_until_a_person_retries_it(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        queue.put("a")

        def cut(item: Item, connection: Connection) -> None:
            effect(item)(connection)
            raise ConnectionResetError("cut")

        worked = queue.work(cut)
        assert (worked.done, worked.failed) == (0, 5)
        assert queue.dead()[0].attempts == 5
        assert not queue.put("a")
        assert queue.claim() is None
        assert queue.retry("a")
        assert not queue.retry("a")
        assert queue.work(handler).done == 1
        assert effects() == ["a"]
        assert queue.item("a").fence == 6  # type: ignore[union-attr]

    def test_a_wait_before_the_next_attempt_is_kept(self, queues: Callable[..., WorkQueue]) -> None:
        queue = queues(
            retry=Retry(attempts=3, first=timedelta(hours=1), longest=timedelta(hours=1), total=timedelta(days=1))
        )
        queue.put("a")
        queue.fail(claimed(queue), ConnectionResetError("cut"))
        assert queue.claim() is None

    def test_an_item_that_kills_its_workers_becomes_a_dead_letter(self, queues: Callable[..., WorkQueue]) -> None:
        queue = queues(lease=AT_ONCE, retry=Retry(attempts=3))
        queue.put("poison")
        assert [claimed(queue).attempts for _ in range(3)] == [1, 2, 3]
        queue.put("good")
        assert claimed(queue).id == "good"
        assert queue.dead()[0].error == "its worker died, in the last of 3 attempts"

    def test_an_interrupted_worker_gives_its_item_back(self, queue: WorkQueue) -> None:
        queue.put("a")

        def interrupted(item: Item, connection: Connection) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            queue.work(interrupted)
        assert queue.item("a").status is PENDING  # type: ignore[union-attr]

    def test_an_item_that_was_only_given_back_is_no_dead_letter(self, queue: WorkQueue) -> None:
        """A rolling deployment interrupts its workers: that is no attempt of the item."""
        queue.put("a")

        def deployed(item: Item, connection: Connection) -> None:
            raise KeyboardInterrupt

        for _ in range(6):
            with pytest.raises(KeyboardInterrupt):
                queue.work(deployed)
        for _ in range(6):
            queue.release(claimed(queue))
        found = queue.item("a")
        assert found is not None
        assert (found.attempts, found.began, found.fence) == (0, None, 12)
        assert queue.work(lambda item, connection: None).done == 1

    def test_an_attempt_that_failed_before_stays_counted_when_the_next_is_given_back(self, queue: WorkQueue) -> None:
        queue.put("a")
        queue.fail(claimed(queue), ConnectionResetError("cut"))
        first = queue.item("a")
        queue.release(claimed(queue))
        found = queue.item("a")
        assert first is not None and found is not None
        assert (found.attempts, found.error, found.began) == (1, "ConnectionResetError: cut", first.began)

    def test_a_handler_that_exits_ends_its_worker_and_its_item_is_a_dead_letter_in_the_end(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        """The process is the caller's: sys.exit() may be its answer to a signal, and is passed on. An item whose own
        code exits must not end every worker for ever."""
        queue.put("a")

        def leaving(item: Item, connection: Connection) -> None:
            handler(item, connection)
            sys.exit(0)

        for attempt in range(1, 6):
            with pytest.raises(SystemExit):
                queue.work(leaving)
            found = queue.item("a")
            assert found is not None
            assert (found.status, found.attempts, found.error) == (PENDING, attempt, "SystemExit: 0")
        assert queue.work(leaving).done == 0
        assert [item.id for item in queue.dead()] == ["a"]
        assert effects() == []

    def test_work_goes_on_after_a_failed_item_and_stops_at_its_limit(
        self, queue: WorkQueue, effects: Callable[[], list[str]]
    ) -> None:
        for name in ("a", "bad", "c", "d"):
            queue.put(name)

        def picky(item: Item, connection: Connection) -> None:
            if item.id == "bad":
                raise ValueError("bad")
            handler(item, connection)

        worked = queue.work(picky, limit=3)
        assert (worked.done, worked.failed) == (2, 1)
        assert effects() == ["a", "c"]
        assert queue.work(picky).done == 1
        assert queue.counts() == {PENDING: 0, PROCESSING: 0, DONE: 3, FAILED: 1}


class InboxSuite(DatabaseSuite):
    @pytest.fixture
    def inbox(self, url: str, effects: Any) -> Iterator[Inbox]:
        with Inbox(url, "orders") as inbox:
            yield inbox

    def test_a_message_is_handled_once(self, inbox: Inbox, effects: Callable[[], list[str]]) -> None:
        assert inbox.once("m1", b"paid", effect("m1"))
        assert not inbox.once("m1", b"paid", effect("m1"))
        assert not inbox.once("m1", "paid", effect("m1"))
        assert effects() == ["m1"]

    def test_redelivery_with_another_body_is_an_error(self, inbox: Inbox, effects: Callable[[], list[str]]) -> None:
        inbox.once("m1", b"pay 10", effect("m1"))
        with pytest.raises(BodyDiffers, match=r"inbox orders\[m1\]: this message was handled before with another body"):
            inbox.once("m1", b"pay 1000", effect("m1"))
        assert effects() == ["m1"]

    def test_a_handler_that_fails_has_done_nothing_and_is_tried_again(
        self, inbox: Inbox, effects: Callable[[], list[str]]
    ) -> None:
        def half(connection: Connection) -> None:
            effect("m1")(connection)
            raise RuntimeError("died half-way")

        with pytest.raises(RuntimeError):
            inbox.once("m1", b"", half)
        assert effects() == []
        assert inbox.once("m1", b"", effect("m1"))
        assert effects() == ["m1"]

    def test_a_message_whose_handler_commits_in_the_driver_is_not_said_to_have_left_nothing(
        self, inbox: Inbox, effects: Callable[[], list[str]]
    ) -> None:
        with pytest.raises(UsageError, match="the handler committed or rolled back itself"):
            inbox.once("m1", b"", commits_in_the_driver("m1"))
        assert effects() == ["m1"]
        assert not inbox.once("m1", b"", effect("m1")), "its memory was committed with it"

    def test_a_message_is_never_handled_whose_transaction_the_database_has_undone(
        self, inbox: Inbox, effects: Callable[[], list[str]]
    ) -> None:
        with pytest.raises(UsageError, match=FOR_SURE):
            inbox.once("m1", b"10 EUR", careless("m1"))
        assert effects() == []
        assert inbox.once("m1", b"10 EUR", effect("m1"))
        assert effects() == ["m1"]

    @pytest.mark.parametrize("bad", ["", " \t", None])
    def test_ids_that_identify_nothing_are_refused(self, inbox: Inbox, bad: Any) -> None:
        with pytest.raises(UsageError, match="the message's id"):
            inbox.once(bad, b"", effect("x"))

    def test_a_body_is_bytes_or_text(self, inbox: Inbox) -> None:
        with pytest.raises(UsageError, match="a message's body is bytes or text, not dict"):
            inbox.once("m1", {"a": 1}, effect("x"))  # type: ignore[arg-type]

    def test_two_deliveries_at_once_one_handles_and_the_other_waits_and_sees_it_done(
        self, url: str, inbox: Inbox, effects: Callable[[], list[str]]
    ) -> None:
        """Read committed would let both handle it, if they only looked first (sqlmesh#3866)."""
        inside, go_on, results = threading.Event(), threading.Event(), []

        def slow(connection: Connection) -> None:
            inside.set()
            assert go_on.wait(30)
            effect("m1")(connection)

        first = threading.Thread(target=lambda: results.append(inbox.once("m1", b"x", slow)))
        first.start()
        assert inside.wait(30)
        with Inbox(url, "orders") as other:
            second = threading.Thread(target=lambda: results.append(other.once("m1", b"x", effect("again"))))
            second.start()
            second.join(0.3)
            assert second.is_alive()  # it waits
            go_on.set()
            first.join(30)
            second.join(30)
        assert sorted(results) == [False, True]
        assert effects() == ["m1"]

    def test_if_the_first_of_two_deliveries_fails_the_other_handles_it(
        self, inbox: Inbox, effects: Callable[[], list[str]]
    ) -> None:
        inside, go_on, results = threading.Event(), threading.Event(), []

        def fails(connection: Connection) -> None:
            effect("failed")(connection)
            inside.set()
            assert go_on.wait(30)
            raise RuntimeError("no")

        def deliver_badly() -> None:
            with pytest.raises(RuntimeError):
                inbox.once("m1", b"x", fails)

        first = threading.Thread(target=deliver_badly)
        first.start()
        assert inside.wait(30)
        second = threading.Thread(target=lambda: results.append(inbox.once("m1", b"x", effect("m1"))))
        second.start()
        go_on.set()
        first.join(30)
        second.join(30)
        assert results == [True]
        assert effects() == ["m1"]

    def test_inboxes_share_a_database_and_nothing_else(
        self, url: str, inbox: Inbox, effects: Callable[[], list[str]]
    ) -> None:
        with Inbox(url, "refunds") as other:
            assert inbox.once("m1", b"a", effect("1"))
            assert other.once("m1", b"b", effect("2"))
        assert effects() == ["1", "2"]
