"""A queue of work in a table: each item is done once, however many workers there are and however they die."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection

from twice.core.retry import Failure, Retry, classify, pause_after
from twice.engine.causes import signs
from twice.errors import BodyDiffers, LeaseLost, TwiceError
from twice.ledgers.database.clock import database_time
from twice.queues import item_table
from twice.queues.handling import Handler, Handling, OnDatabase
from twice.queues.item import Item, ItemStatus, body_text, checked_id
from twice.runtime.holder import this_process

T = TypeVar("T")


@dataclass(frozen=True)
class Worked:
    """What one call of `work` did: how many items were done, and how many attempts failed."""

    done: int
    failed: int


class WorkQueue(OnDatabase):
    """Items of one queue in a database (`sqlite:///…` or `postgresql://…`), with leases, fences, retries and dead
    letters. What a handler writes to this database commits together with the item's completion, so it happens once.

    An item whose worker died is claimed again when its `lease` has ended. `retry` says how often an item is tried;
    after that, or at a permanent error, it is a dead letter until a person calls `retry`.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        lease: timedelta = timedelta(minutes=5),
        retry: Retry = Retry(attempts=5, total=timedelta(days=1)),  # noqa: B008 - it is frozen
    ) -> None:
        self.name = checked_id(name, "the queue's name")
        self._lease = lease
        self._policy = retry
        self._holder = this_process()
        self._database = Handling(url, "queue", item_table.metadata)

    def put(self, id: str, body: Any = None) -> bool:
        """Add an item; `body` is anything JSON. False if the queue knows it, done or not: nothing changes. The same id
        with another body is an error."""
        checked_id(id, "the item's id")
        asked = body_text(body)
        known = self._writing(lambda connection, now: item_table.put(connection, self.name, id, asked, now))
        if known is not None and known != asked:
            raise BodyDiffers(
                "this id was put before with another body",
                where=self._item_label(id),
                now="The item is as it was first put.",
                fix="Give new work a new id.",
            )
        return known is None

    def claim(self) -> Item | None:
        """The next item that is due, leased to this process; None if nothing is due now."""
        while True:
            item = self._writing(
                lambda connection, now: item_table.claim(connection, self.name, now, now + self._lease, self._holder)
            )
            if item is None or item.attempts <= self._policy.attempts:
                return item
            # Whoever claimed it last time died of it, or with it: enough workers were lost.
            self._move(item, ItemStatus.FAILED, f"its worker died, in the last of {self._policy.attempts} attempts")

    def complete(self, item: Item, handle: Handler | None = None) -> bool:
        """Done, together with what `handle` writes on the connection it is given: one transaction. False if this very
        claim has completed it before: nothing happens again. LeaseLost if another worker has it: nothing is written.
        """

        def still_ours(connection: Connection) -> bool:
            now = database_time(connection)
            if item_table.move(connection, self.name, item, ItemStatus.DONE, now, None):
                return True
            found = item_table.read(connection, self.name, item.id)
            if found is not None and found.status is ItemStatus.DONE and found.fence == item.fence:
                return False
            raise self._lost(item, found)

        return self._database.outlive(lambda: self._database.together(still_ours, handle or _nothing, self._lease))

    def fail(self, item: Item, error: BaseException) -> ItemStatus:
        """The attempt failed. Transient: pending again after a wait; else, or after the last attempt, a dead
        letter. LeaseLost if the claim is over."""
        message = f"{type(error).__name__}: {(str(error).strip().splitlines() or ['(no message)'])[0]}"
        judgement = classify(self._policy, signs(error))

        def decide(connection: Connection, now: datetime) -> ItemStatus:
            failure = Failure(item.attempts, now - (item.began or now), judgement)
            pause = pause_after(self._policy, failure, random.random())
            status = ItemStatus.FAILED if pause is None else ItemStatus.PENDING
            if not item_table.move(connection, self.name, item, status, now + (pause or timedelta(0)), message):
                raise self._lost(item, item_table.read(connection, self.name, item.id))
            return status

        return self._writing(decide)

    def renew(self, item: Item) -> None:
        """Hold a claimed item for another lease: for slow work before `complete`. LeaseLost if it is too late."""
        self._move(item, ItemStatus.PROCESSING, None, self._lease)

    def release(self, item: Item) -> None:
        """Give a claimed item back: pending, due now; the attempt does not count. LeaseLost if the claim is over."""

        def act(connection: Connection, now: datetime) -> None:
            if not item_table.give_back(connection, self.name, item, now):
                raise self._lost(item, item_table.read(connection, self.name, item.id))

        self._writing(act)

    def work(self, handle: Callable[[Item, Connection], object], *, limit: int | None = None) -> Worked:
        """Claim and complete until nothing is due (or `limit` items were tried). A handler's error fails its item, not
        the worker. Interrupted, it gives its item back; `sys.exit()` in a handler ends the worker, and counts as an
        attempt."""
        done = failed = 0
        while (limit is None or done + failed < limit) and (item := self.claim()) is not None:
            try:
                done += self._handle(item, handle)
            except Exception as error:  # noqa: BLE001 - the boundary to user code: it is recorded with the item
                failed += 1
                with suppress(LeaseLost):
                    self.fail(item, error)
            except SystemExit as error:
                # Perhaps the process's answer to a signal, perhaps the item's own code: it ends the worker, but not
                # every worker for ever.
                with suppress(TwiceError):
                    self._move(item, ItemStatus.PENDING, f"SystemExit: {error}")
                raise
            except BaseException:
                with suppress(TwiceError):
                    self.release(item)
                raise
        return Worked(done, failed)

    def item(self, id: str) -> Item | None:
        """What is known of one item."""
        return self._reading(lambda connection: item_table.read(connection, self.name, id))

    def dead(self, limit: int = 100) -> tuple[Item, ...]:
        """The dead letters, oldest first, each with its last error."""
        return self._reading(lambda connection: item_table.dead(connection, self.name, limit))

    def retry(self, id: str) -> bool:
        """A person asks for it: a dead letter is pending again, with all its attempts. False if it is none."""
        return self._writing(lambda connection, now: item_table.revive(connection, self.name, id, now))

    def forget(self, older_than: timedelta) -> int:
        """Forget items that were done longer ago; how many. One of them that is put again is done again: keep them for
        longer than anybody puts an id again. Dead letters stay. A second call finds none."""
        return self._writing(lambda connection, now: item_table.forget(connection, self.name, now - older_than))

    def counts(self) -> Mapping[ItemStatus, int]:
        """How many items there are, by status."""
        return self._reading(lambda connection: item_table.counts(connection, self.name))

    def _handle(self, item: Item, handle: Callable[[Item, Connection], object]) -> bool:
        return self.complete(item, lambda connection: handle(item, connection))

    def _reading(self, ask: Callable[[Connection], T]) -> T:
        def once() -> T:
            with self._database.reading() as connection:
                return ask(connection)

        return self._database.outlive(once)

    def _writing(self, act: Callable[[Connection, datetime], T]) -> T:
        def once() -> T:
            with self._database.writing() as connection:
                return act(connection, database_time(connection))

        return self._database.outlive(once)

    def _move(self, item: Item, status: ItemStatus, error: str | None, later: timedelta = timedelta(0)) -> None:
        def act(connection: Connection, now: datetime) -> None:
            if not item_table.move(connection, self.name, item, status, now + later, error):
                raise self._lost(item, item_table.read(connection, self.name, item.id))

        self._writing(act)

    def _lost(self, item: Item, found: Item | None) -> LeaseLost:
        if found is None:
            now = "is not in the queue any more"
        elif found.status is ItemStatus.PROCESSING:
            now = f"was claimed by another worker ({found.holder}, fence {found.fence})"
        else:
            now = f"is {found.status.value}"
        return LeaseLost(
            f"this claim (fence {item.fence}) is over: the item {now}",
            where=self._item_label(item.id),
            now="Nothing of this attempt was written.",
            fix="Leave it to the other worker. If this happens often, give the queue a longer lease.",
        )

    def _item_label(self, id: str) -> str:
        return f"queue {self.name}[{id}]"


def _nothing(_connection: Connection) -> None:
    """The work was done elsewhere: only the item is completed."""
