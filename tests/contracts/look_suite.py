"""Looks are kept, one of each task, by every ledger. The fixture `url` is a fresh ledger's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from sqlalchemy import Engine, event
from tests.contracts.ledger_suite import NOON, HandClock

from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.record import RunRecord
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.ledgers.ledger import Ledger

A, B = "2026-06-09", "2026-06-10"
HOUR = timedelta(hours=1)


def seen(label: str, why: str = "its input shop.orders changed since version 2") -> SeenSlice:
    return SeenSlice(label, "stale", why, 3, "attempt", "last")


LOOK = Look("revenue", NOON, "code 1", 12, (seen(A), SeenSlice(B, "missing", "not there", 1, None, None)))


class LookSuite:
    @pytest.fixture
    def ledger(self, url: str) -> Iterator[Ledger]:
        opened = Ledger.open(url, HandClock())
        yield opened
        opened.close()

    def test_a_task_that_nobody_looked_at_has_no_look(self, ledger: Ledger) -> None:
        assert ledger.looks() == {}

    def test_a_look_is_read_as_it_was_recorded_and_a_second_time_changes_nothing(self, ledger: Ledger) -> None:
        ledger.record_look(LOOK)
        ledger.record_look(LOOK)
        assert ledger.looks() == {"revenue": LOOK}

    def test_the_next_look_takes_the_place_of_the_last_one_with_all_that_it_found(self, ledger: Ledger) -> None:
        ledger.record_look(LOOK)
        ledger.record_look(replace(LOOK, task="clicks"))
        later = Look("revenue", NOON + HOUR, "code 2", 13, (seen("2026-06-11"),))
        ledger.record_look(later)
        assert ledger.looks() == {"clicks": replace(LOOK, task="clicks"), "revenue": later}

    def test_a_look_that_began_earlier_and_ends_later_does_not_replace_a_newer_one(self, ledger: Ledger) -> None:
        later = Look("revenue", NOON + HOUR, "code 1", 12)
        ledger.record_look(later)
        ledger.record_look(LOOK)
        assert ledger.looks() == {"revenue": later}

    def test_another_environment_and_another_project_see_nothing_of_it(self, url: str) -> None:
        tables = {name: {"revenue": TaskTable(name, "delta:shop.revenue")} for name in ("prod", "dev")}
        owners = [
            RecordOwner(project, name, tables[name]) for project, name in (("p", "prod"), ("p", "dev"), ("q", "dev"))
        ]
        ledgers = [Ledger.open(url, owner=owner) for owner in owners]
        ledgers[0].record_look(LOOK)
        assert [each.looks() for each in ledgers] == [{"revenue": LOOK}, {}, {}]
        ledgers[1].record_look(Look("revenue", NOON + HOUR, "code 2", 1))
        assert ledgers[0].looks() == {"revenue": LOOK}
        for each in ledgers:
            each.close()

    def test_a_look_follows_a_renamed_task(self, ledger: Ledger) -> None:
        ledger.record_look(LOOK)
        ledger.rename("revenue", "sales")
        ledger.rename("revenue", "sales")
        assert ledger.looks() == {"sales": replace(LOOK, task="sales")}

    @pytest.mark.parametrize("later", [HOUR, timedelta(0), -HOUR], ids=["later", "at once", "earlier"])
    def test_of_the_looks_at_a_renamed_task_the_newer_one_stays_with_all_that_it_found(
        self, ledger: Ledger, later: timedelta
    ) -> None:
        of_new = Look("sales", NOON + later, "code 2", 13, (seen(B, "of the new name"), seen("2026-06-12")))
        ledger.record_look(LOOK)
        ledger.record_look(of_new)
        ledger.rename("revenue", "sales")
        assert ledger.looks() == {"sales": replace(LOOK, task="sales") if later < timedelta(0) else of_new}

    def test_an_empty_look_that_is_newer_takes_what_was_stale_from_a_renamed_task(self, ledger: Ledger) -> None:
        ledger.record_look(replace(LOOK, at=NOON + HOUR, seen=()))
        ledger.record_look(replace(LOOK, task="sales"))
        ledger.rename("revenue", "sales")
        assert ledger.looks() == {"sales": replace(LOOK, task="sales", at=NOON + HOUR, seen=())}

    def test_dying_before_it_is_committed_leaves_the_one_before_whole(self, ledger: Ledger) -> None:
        ledger.record_look(LOOK)

        def die(*_: Any) -> None:
            raise KeyboardInterrupt

        event.listen(Engine, "commit", die)
        try:
            with pytest.raises(KeyboardInterrupt):
                ledger.record_look(Look("revenue", NOON + HOUR, "code 2", 13, (seen("2026-06-11"),)))
        finally:
            event.remove(Engine, "commit", die)
        assert ledger.looks() == {"revenue": LOOK}

    def test_two_looks_at_once_leave_one_of_them_whole(self, url: str, ledger: Ledger) -> None:
        both = [
            replace(LOOK, slices=number, seen=(seen(A, f"look {number}"), seen(B, f"look {number}")))
            for number in (1, 2)
        ]
        start, errors = Barrier(2), list[BaseException]()

        def record(look: Look) -> None:
            own = Ledger.open(url)
            try:
                start.wait(30)
                for _ in range(20):
                    own.record_look(look)
            except BaseException as error:  # noqa: BLE001 - of a thread: it is raised below
                errors.append(error)
            finally:
                own.close()

        threads = [Thread(target=record, args=(look,)) for look in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert ledger.looks()["revenue"] in both

    @pytest.mark.parametrize(
        ("now", "about"),
        [({}, True), ({"generation": 4}, False), ({"attempt": "other"}, False), ({"last_attempt": "other"}, False)],
        ids=["as it was", "published again", "published by another", "tried since"],
    )
    def test_what_was_seen_counts_as_long_as_nobody_has_tried_the_slice(self, now: dict[str, Any], about: bool) -> None:
        run = RunRecord("revenue", A, 3, "attempt", None, 1, None, 2, NOON, "last", None)
        assert seen(A).is_about(replace(run, **now)) is about
