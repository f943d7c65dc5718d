"""A restatement on PostgreSQL, which does not remember who changed a row: what changed is seen in the rows. No JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.postgres_harness import PostgresHarness
from tests.contracts.target_suite import DAILY, DAY, NEXT, REVENUE, generations, plan_of
from tests.runtime.conftest import RuntimeSetup, ShiftedClock, make_runtime, revenue_task
from tests.runtime.starting import start

from twice import Outcome
from twice.core.backfill.plan import BackfillRequest, StatusChoice
from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ports import Column, Landed, Shape
from twice.core.results.run import RunResult
from twice.core.table.token import CommitNote
from twice.core.task import Task
from twice.core.write import Layout, WritePlan
from twice.ledgers.ledger import Ledger
from twice.runtime.backfill.worker import Event, Stop, work
from twice.targets.memory.rows import Rows

EVERYTHING: tuple[StatusChoice, ...] = ("missing", "failed", "stale", "published")


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    return PostgresHarness(database)


@pytest.fixture
def runtime(harness: PostgresHarness, tmp_path: Path) -> Iterator[RuntimeSetup]:
    """Revenue by day lies in PostgreSQL, the orders in memory."""
    clock = ShiftedClock()
    made = make_runtime(Ledger.open(f"sqlite:///{tmp_path}/ledger.db", clock), tmp_path, clock)
    memory, target = made.target, harness.target()
    made.context = replace(made.context, target_of=lambda table, session: target if table == REVENUE else memory)
    yield made
    made.ledger.close()


@pytest.fixture
def published(runtime: RuntimeSetup) -> Task:
    declared = runtime.declare(revenue_task())
    for day in ("2026-06-09", "2026-06-10"):
        assert runtime.run(declared, day).outcome is Outcome.PUBLISHED
    return declared


def restated(runtime: RuntimeSetup, declared: Task) -> RunResult:
    return runtime.run(declared, kind="restate")


def test_a_restatement_that_puts_deleted_rows_back_has_changed_the_table(
    runtime: RuntimeSetup, harness: PostgresHarness, published: Task
) -> None:
    harness.ask("DELETE FROM shop.revenue WHERE order_date = '2026-06-09'")
    result = restated(runtime, published)
    assert (result.outcome, result.slices[0].changed) == (Outcome.CHANGED, True)
    assert result.notes[-1] == "what others had changed is replaced: 2026-06-09"
    again = restated(runtime, published)
    assert (again.outcome, again.slices[0].changed, again.notes) == (Outcome.IDENTICAL, False, ())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE shop.revenue SET revenue = revenue + 1 WHERE order_date = '2026-06-09'",
        "INSERT INTO shop.revenue SELECT * FROM shop.revenue WHERE order_date = '2026-06-09'",
    ],
)
def test_a_row_that_others_changed_or_doubled_is_a_change_too(
    runtime: RuntimeSetup, harness: PostgresHarness, published: Task, change: str
) -> None:
    harness.ask(change)
    assert restated(runtime, published).outcome is Outcome.CHANGED
    assert harness.ask("SELECT revenue FROM shop.revenue ORDER BY order_date") == [(15,), (7,)]


def test_what_others_did_to_another_slice_is_no_change_of_this_one(
    runtime: RuntimeSetup, harness: PostgresHarness, published: Task
) -> None:
    harness.ask("DELETE FROM shop.revenue WHERE order_date = '2026-06-10'")
    assert restated(runtime, published).outcome is Outcome.IDENTICAL


def test_rows_that_others_made_right_already_are_identical(
    runtime: RuntimeSetup, harness: PostgresHarness, published: Task
) -> None:
    """The table is the truth, not what the ledger remembers of it."""
    runtime.put_orders((1, date(2026, 6, 9), 99), (3, date(2026, 6, 10), 7))
    harness.ask("UPDATE shop.revenue SET revenue = 99 WHERE order_date = '2026-06-09'")
    assert restated(runtime, published).outcome is Outcome.IDENTICAL


def test_an_error_after_the_commit_does_not_make_it_identical(
    runtime: RuntimeSetup, harness: PostgresHarness, published: Task
) -> None:
    harness.ask("DELETE FROM shop.revenue WHERE order_date = '2026-06-09'")

    def fail(point: Point | SendPoint) -> None:
        if point is Point.AFTER_COMMIT:
            raise RuntimeError("the line is gone")

    with armed(fail):
        result = restated(runtime, published)
    assert any("published, and then RuntimeError" in note for note in result.notes)
    assert result.outcome is Outcome.CHANGED


def test_a_backfill_distinguishes_the_slices_that_were_put_back_from_those_that_were_not(
    runtime: RuntimeSetup, harness: PostgresHarness, published: Task
) -> None:
    harness.ask("DELETE FROM shop.revenue WHERE order_date = '2026-06-09'")
    record, _ = start(runtime.context, BackfillRequest("revenue", "2026-06-09", "2026-06-10", EVERYTHING, restate=True))
    events: list[Event] = []
    work(runtime.context, record.name, events.append, Stop.never())
    ends = {end.label: end.comparison for event in events for end in event.ends}
    assert {label: each is not None and each.identical for label, each in ends.items()} == {
        "2026-06-09": False,
        "2026-06-10": True,
    }


ODD = (
    Column("order_date", "date"),
    Column("code", "string"),
    Column("body", "string"),
    Column("tags", "array<string>"),
    Column("size", "double"),
)


def test_several_slices_in_one_commit_are_distinguished_whatever_types_their_columns_have(
    harness: PostgresHarness,
) -> None:
    harness.ask("CREATE SCHEMA shop")
    harness.ask("CREATE TABLE shop.revenue (order_date date, code char(3), body json, tags varchar(5)[], size float8)")
    target = harness.target()
    rows: list[Any] = [
        (date(2026, 6, day), code, '{"n": 1}', ["x  ", None], size)
        for day in (9, 10)
        for code, size in (("a", float("nan")), ("a", float("nan")), ("b ", None))
    ]

    def publish(attempt: str, kind: Any) -> Landed:
        into = target.prepare(REVENUE, Shape(ODD), Layout(DAILY.held_in), False)
        plan: WritePlan = plan_of(DAY, NEXT)
        expected = generations(target, plan)
        staged = target.stage(REVENUE, Rows(ODD, tuple(rows)), plan, attempt, into=into)
        end = target.commit(staged, expected, CommitNote(attempt, kind, {app: n + 1 for app, n in expected.items()}))
        assert isinstance(end, Landed)
        return end

    assert publish("a", "run").changed is None  # nobody asked
    assert publish("b", "restate").changed == frozenset()
    harness.ask("UPDATE shop.revenue SET body = '{}' WHERE order_date = '2026-06-10' AND code = 'b'")
    end = publish("c", "restate")
    assert end.changed == frozenset({NEXT.label})
    note = target.provenance(REVENUE, plan_of(NEXT).token_names[0], 3)
    assert note is not None
    assert note.changed == end.changed
