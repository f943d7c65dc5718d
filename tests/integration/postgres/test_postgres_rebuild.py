"""A table of PostgreSQL adopted, then rebuilt, by whole runs: with a real server and plain rows. No JVM."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.postgres_harness import PostgresHarness
from tests.runtime.conftest import ShiftedClock, make_runtime, summed

from twice import Daily, append_once, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.ports import Column
from twice.core.project.project import Project, assemble
from twice.core.results.run import Outcome, RunRequest
from twice.core.task import Task
from twice.errors import DeclarationError, SchemaDrift
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.runtime.rebuild.plan import Rebuild, RebuildRequest
from twice.runtime.rebuild.rebuild import rebuild_table
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.adopt import AdoptRequest, adopt
from twice.targets.memory.rows import Rows

CODE = ["v1"]


def as_text(orders: Rows) -> Rows:
    rows = tuple((day, str(total)) for day, total in summed(orders).rows)
    return Rows((Column("order_date", "date"), Column("revenue", "string")), rows)


def declared(function: Any = summed) -> Task:
    CODE[0] = function.__name__
    scope = Daily("order_date", start="2026-01-01")
    inputs = {"orders": read("shop.orders", by="order_date")}
    return task("shop.revenue", scope=scope, inputs=inputs, write=replace_rows(), name="revenue")(function)


@pytest.fixture
def harness(one_database: str) -> PostgresHarness:
    harness = PostgresHarness(one_database)
    harness.ask("DROP SCHEMA IF EXISTS shop, twice CASCADE")
    harness.ask("CREATE SCHEMA shop")
    harness.ask("CREATE TABLE shop.orders (order_id bigint, order_date date, amount bigint)")
    harness.ask("INSERT INTO shop.orders VALUES (1, '2026-06-09', 10), (2, '2026-06-09', 5), (3, '2026-06-10', 7)")
    return harness


@pytest.fixture
def context(harness: PostgresHarness, tmp_path: Path) -> RunContext:
    clock = ShiftedClock()
    made = make_runtime(Ledger.open(f"sqlite:///{tmp_path}/ledger.db", clock), tmp_path, clock)
    return replace(made.context, target_of=lambda *_: harness.target(), code_hash=lambda _: CODE[0])


def run(context: RunContext, made: Task, day: str, kind: Any = "run") -> Any:
    scope = made.scope
    assert isinstance(scope, Daily)
    used = replace(context, project=assemble("p", [made]))
    return run_task(used, made, (scope.slice_of(day),), RunRequest(kind))


def rebuild(context: RunContext, made: Task, folder: Path, **request: Any) -> Any:
    used = replace(context, project=assemble("p", [made]))
    aside = Ledger.open(f"sqlite:///{folder}/aside.db", context.clock)
    found = Rebuild(used, used, made)
    project = Project("p", {made.name: made, found.side_task.name: found.side_task})
    beside = replace(found, aside=replace(used, ledger=aside, project=project))
    try:
        return rebuild_table(beside, RebuildRequest(**request), lambda _: None)
    except Crash:  # who was killed does not renew its lease
        assert isinstance(context.clock, ShiftedClock)
        context.clock.ahead += timedelta(hours=1)
        raise


def test_a_table_of_somebody_is_adopted_with_the_columns_that_the_server_fills(
    context: RunContext, harness: PostgresHarness
) -> None:
    harness.ask(
        "CREATE TABLE shop.revenue (id bigserial, order_date date, revenue bigint, at timestamptz DEFAULT now())"
    )
    harness.ask("INSERT INTO shop.revenue (order_date, revenue) VALUES ('2026-06-09', 1500), ('2026-06-10', 700)")
    made = declared()
    used = replace(context, project=assemble("p", [made]))
    done = adopt(used, made, AdoptRequest("ana", "from the old job", "2026-06-09..2026-06-09"))
    assert (done.published, done.laid_out) == (("2026-06-09",), False)
    kept = run(context, made, "2026-06-09")
    assert (kept.outcome, kept.why[:8]) == (Outcome.ALREADY, "adopted:")
    assert run(context, made, "2026-06-10").outcome is Outcome.PUBLISHED
    rows = harness.ask("SELECT id, order_date, revenue FROM shop.revenue ORDER BY 2")
    assert rows == [(1, date(2026, 6, 9), 1500), (3, date(2026, 6, 10), 7)]
    with pytest.raises(DeclarationError, match="the server fills at, id"):
        rebuild(context, declared(as_text), Path(context.root), adopted=True)


@pytest.mark.parametrize("point", [None, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
def test_a_rebuild_on_postgresql_gives_the_table_its_new_columns(
    context: RunContext, harness: PostgresHarness, tmp_path: Path, point: Point | None
) -> None:
    for day in ("2026-06-09", "2026-06-10"):
        run(context, declared(), day)
    made = declared(as_text)
    with pytest.raises(SchemaDrift, match="twice rebuild revenue"):
        run(context, made, "2026-06-09")
    if point is not None:
        left = [2 if point is Point.PUBLISHING else 3]  # the side table is made and two slices are filled before

        def die(passed: Any) -> None:
            if passed is point:
                if not left[0]:
                    raise Crash(point.value)
                left[0] -= 1

        with armed(die), pytest.raises(Crash):
            rebuild(context, made, tmp_path)
        clock = context.clock
        assert isinstance(clock, ShiftedClock)
        clock.ahead += timedelta(hours=1)
    if point is not Point.AFTER_COMMIT:  # else there is nothing left to do, and the next run finds it so
        rebuild(context, made, tmp_path)
    assert harness.ask("SELECT order_date, revenue FROM shop.revenue ORDER BY 1") == [
        (date(2026, 6, 9), "15"),
        (date(2026, 6, 10), "7"),
    ]
    assert harness.ask("SELECT count(*) FROM twice.tables WHERE name = 'shop.revenue'") == [(1,)]
    assert run(context, made, "2026-06-09", kind="restate").outcome is Outcome.IDENTICAL


def with_tax(orders: Rows) -> Rows:
    """One column more, and one widened."""
    rows = tuple((day, total, total * 2) for day, total in summed(orders).rows)
    return Rows((Column("order_date", "date"), Column("revenue", "decimal(20,0)"), Column("tax", "bigint")), rows)


def test_adopted_days_are_copied_into_the_new_columns_and_stay_adopted(
    context: RunContext, harness: PostgresHarness, tmp_path: Path
) -> None:
    harness.ask("CREATE TABLE shop.revenue (order_date date, revenue bigint)")
    harness.ask("INSERT INTO shop.revenue VALUES ('2026-06-09', 1500)")
    first = declared()
    adopt(replace(context, project=assemble("p", [first])), first, AdoptRequest("ana", "it was there", "2026-06-09"))
    run(context, first, "2026-06-10")
    made = declared(with_tax)
    assert rebuild(context, made, tmp_path).copied == 1
    rows = harness.ask("SELECT order_date, revenue::int, tax FROM shop.revenue ORDER BY 1")
    assert rows == [(date(2026, 6, 9), 1500, None), (date(2026, 6, 10), 7, 14)]
    assert run(context, made, "2026-06-09").why.startswith("adopted")


def appended(function: Any = summed) -> Task:
    CODE[0] = function.__name__
    scope = Daily("order_date", start="2026-01-01")
    inputs = {"orders": read("shop.orders", by="order_date")}
    return task("shop.revenue", scope=scope, inputs=inputs, write=append_once(), name="revenue")(function)


@pytest.mark.parametrize("point", [None, Point.PUBLISHING, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
def test_rows_that_were_appended_once_are_copied_and_rows_of_others_meanwhile_are_not_lost(
    context: RunContext, harness: PostgresHarness, tmp_path: Path, point: Point | None
) -> None:
    run(context, appended(), "2026-06-09")
    made, passed = appended(with_tax), list[Point]()

    def meanwhile(at: Any) -> None:
        if at is Point.PUBLISHING and at not in passed:
            harness.ask("INSERT INTO shop.revenue VALUES ('2020-01-01', 1)")
        passed.append(at)
        if (
            point is not None and at is point and passed.count(point) == 2
        ):  # the first time is the copy's, or the exchange that comes too late
            raise Crash(point.value)

    with armed(meanwhile):
        if point is None:
            assert rebuild(context, made, tmp_path).rounds == 2
        else:
            with pytest.raises(Crash):
                rebuild(context, made, tmp_path)
    rebuild(context, made, tmp_path)
    rows = harness.ask("SELECT order_date, revenue::int, tax FROM shop.revenue ORDER BY 1")
    assert rows == [(date(2020, 1, 1), 1, None), (date(2026, 6, 9), 15, None)]
    assert run(context, made, "2026-06-09").outcome is Outcome.ALREADY
    assert harness.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'shop'") == [(2,)]
