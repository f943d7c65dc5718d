"""A look at what is published: what is not right any more, without a run, and only of what the ledger knew then."""

from __future__ import annotations

from datetime import date

from tests.runtime.conftest import REVENUE, RuntimeSetup, revenue_task

from twice.core.ledger.look import Look
from twice.core.task import Task
from twice.runtime.staleness.look_at import NOT_HELD, look_at
from twice.runtime.staleness.slice_status import slice_statuses

DAYS = tuple(date(2026, 6, day) for day in (1, 2, 3))


def published(runtime: RuntimeSetup) -> Task:
    """Three days of the same orders."""
    put(runtime)
    declared = runtime.declare(revenue_task())
    for day in DAYS:
        runtime.run(declared, day.isoformat())
    return declared


def put(runtime: RuntimeSetup, *changed: date) -> None:
    runtime.put_orders(*((n, day, 100 + (day in changed)) for n, day in enumerate(DAYS)))


def look(runtime: RuntimeSetup, declared: Task) -> Look:
    return look_at(runtime.context, declared, lambda slices: slice_statuses(runtime.context, declared, slices, None))


def test_a_look_at_what_is_right_finds_nothing_and_says_when_and_at_how_much(runtime: RuntimeSetup) -> None:
    declared = published(runtime)
    before = runtime.ledger.now()
    found = look(runtime, declared)
    assert (found.task, found.slices, found.seen, found.code) == ("revenue", 3, (), "v1")
    assert before <= found.at <= runtime.ledger.now()


def test_a_look_finds_the_slice_whose_input_changed_with_the_publish_that_it_is_about(runtime: RuntimeSetup) -> None:
    declared = published(runtime)
    put(runtime, DAYS[1])
    (seen,) = look(runtime, declared).seen
    run = runtime.ledger.run("revenue", "2026-06-02")
    assert run is not None and seen.is_about(run)
    assert (seen.label, seen.status, seen.why) == (
        "2026-06-02",
        "stale",
        "its input shop.orders changed since version 2",
    )
    runtime.run(declared, "2026-06-02")
    after = runtime.ledger.run("revenue", "2026-06-02")
    assert after is not None and not seen.is_about(after)
    assert look(runtime, declared).seen == ()


def test_a_run_that_finds_the_slice_right_after_all_ends_what_was_seen_of_it(runtime: RuntimeSetup) -> None:
    declared = published(runtime)
    put(runtime, DAYS[1])
    (seen,) = look(runtime, declared).seen
    put(runtime)
    runtime.run(declared, "2026-06-02")
    run = runtime.ledger.run("revenue", "2026-06-02")
    assert run is not None and not seen.is_about(run)


def test_a_slice_that_its_table_does_not_hold_is_seen_as_missing(runtime: RuntimeSetup) -> None:
    declared = published(runtime)
    del runtime.target._tables[REVENUE.name]
    found = look(runtime, declared)
    assert [(each.label, each.status, each.why) for each in found.seen] == [
        (day.isoformat(), "missing", NOT_HELD) for day in DAYS
    ]


def test_a_look_changes_neither_the_table_nor_the_ledger(runtime: RuntimeSetup) -> None:
    declared = published(runtime)
    put(runtime, *DAYS)
    before = list(runtime.ledger.export()), runtime.version
    assert len(look(runtime, declared).seen) == 3
    assert (list(runtime.ledger.export()), runtime.version) == before


def test_nothing_published_is_a_look_at_nothing(runtime: RuntimeSetup) -> None:
    found = look(runtime, runtime.declare(revenue_task()))
    assert (found.slices, found.seen) == (0, ())
