"""Audits: what a batch and a rebuilt ledger make of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, REVENUE, RuntimeSetup, revenue_task
from tests.runtime.starting import start
from tests.runtime.table.test_redeclared_scope import COLUMNS as EVENT_COLUMNS
from tests.runtime.table.test_redeclared_scope import EVENTS, HALF, QUARTER
from tests.runtime.upkeep.test_rebuild_ledger import lose_the_ledger

from twice import Daily, Every, Hourly, Monthly, Whole, audit, merge, read, task
from twice import replace as replace_rows
from twice.core.backfill.plan import BackfillRequest
from twice.core.ports import Column
from twice.core.scope import slice_named
from twice.core.task import TableName, Task
from twice.errors import AuditFailed
from twice.runtime.backfill.worker import Stop, work
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.targets.memory.rows import Rows

CUSTOMERS, BILLS = TableName("shop.customers"), TableName("shop.bills")


def at(hour: int, minute: int, day: int = 9) -> datetime:
    return datetime(2026, 6, day, hour, minute, tzinfo=timezone.utc)


SAME: Any = {"slice_column": "at", "batch": True}
FINE = [
    (Monthly("at", start="2026-01", **SAME), "date", ("2026-01", "2026-02")),
    (Hourly("at", start="2026-06-09T00", **SAME), "timestamp", ("2026-06-09T01", "2026-06-09T02")),
    (Every("at", start="2026-06-09T00:00", **SAME), "timestamp", ("2026-06-09T01:00", "2026-06-09T01:15")),
    (Daily("at", start="2026-01-01", zone="UTC", **SAME), "timestamp", ("2026-06-09", "2026-06-10")),
]
"""Scopes whose slice column is the scope column itself and holds many values in one slice; two neighbouring slices."""

TWICE: dict[str, list[tuple[Any, ...]]] = {
    "2026-01": [(1, date(2026, 1, 3)), (1, date(2026, 1, 20)), (1, date(2026, 2, 5))],
    "2026-06-09T01": [(1, at(1, 3)), (1, at(1, 20)), (1, at(2, 5))],
    "2026-06-09T01:00": [(1, at(1, 3)), (1, at(1, 4)), (1, at(1, 20))],
    "2026-06-09": [(1, at(1, 3)), (1, at(1, 20)), (1, at(0, 5, day=10))],
}
"""By the first slice, in which customer 1 has two bills; in the second one there is one, as it must be."""


def bills(scope: Any) -> Task:
    """One bill in each slice for each customer, in a table that is partitioned by the scope column."""
    return task(
        "shop.bills",
        scope=scope,
        inputs={"customers": read("shop.customers", by="at")},
        write=replace_rows(),
        audits=[audit.unique("customer")],
        name="bills",
    )(lambda customers: customers)


@pytest.mark.parametrize(("scope", "type_", "labels"), FINE)
def test_in_a_batch_a_slice_is_audited_as_if_it_had_come_alone(
    runtime: RuntimeSetup, scope: Any, type_: str, labels: tuple[str, str]
) -> None:
    rows = tuple(TWICE[labels[0]])
    runtime.put(CUSTOMERS, Rows((Column("customer", "bigint"), Column("at", type_)), rows))
    declared = runtime.declare(bills(scope))
    with pytest.raises(AuditFailed, match="1 of 2 rows repeat another's customer"):
        run_task(runtime.context, declared, (scope.slice_of(labels[0]),))
    with pytest.raises(AuditFailed, match=f"{labels[0]}: 1 of 2 rows repeat another's customer"):
        run_task(runtime.context, declared, tuple(scope.slice_of(label) for label in labels))
    record, _ = start(runtime.context, BackfillRequest("bills", *labels, batch=2))
    work(runtime.context, record.name, lambda event: None, Stop.never())
    assert runtime.target.read(BILLS).rows == rows[2:]


def each(orders: Rows) -> Rows:
    return orders


@pytest.mark.parametrize("scope", [Daily("order_date", start="2026-01-01"), Whole()])
def test_a_rebuilt_ledger_does_not_let_a_slice_shrink(runtime: RuntimeSetup, tmp_path: Path, scope: Any) -> None:
    """The table has the rows of before also where the ledger does not know them."""
    declared = runtime.declare(replace(revenue_task(each, audits=(audit.not_shrunk(to=0.5),)), scope=scope))
    slices = (slice_named(scope, None if isinstance(scope, Whole) else "2026-06-09"),)
    runtime.put_orders(*((number, DAY, 10) for number in range(100)))
    run_task(runtime.context, declared, slices)
    lose_the_ledger(runtime, tmp_path)
    rebuild_ledger(runtime.context, None)
    runtime.put_orders((1, DAY, 10))
    with pytest.raises(AuditFailed, match="1 rows, 100 before"):
        run_task(runtime.context, declared, slices)
    assert len(runtime.target.read(REVENUE).rows) == 100


def test_where_nobody_can_count_what_a_slice_had_not_shrunk_does_not_say_that_it_is_the_first(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    """Rows that were merged in do not say which slice they are of."""
    merged = replace(revenue_task(each, audits=(audit.not_shrunk(to=0.5),)), write=merge("order_id"))
    declared = runtime.declare(merged)
    runtime.run(declared)
    assert message_of(runtime) == "2 rows, published for the first time"
    lose_the_ledger(runtime, tmp_path)
    rebuild_ledger(runtime.context, None)
    runtime.put_orders((1, DAY, 11))
    runtime.run(declared)
    assert message_of(runtime) == "1 rows; how many it had before is not known"


def test_not_shrunk_does_not_compare_with_rows_of_a_slice_that_was_cut_otherwise(runtime: RuntimeSetup) -> None:
    """The label 01:00 stood for half an hour: a quarter of an hour has fewer rows, and is not rejected for that."""
    runtime.put(EVENTS, Rows(EVENT_COLUMNS, tuple((number, DAY, at(1, 2 * number)) for number in range(15))))
    for scope in (HALF, QUARTER):
        runtime.code[0] = repr(scope)
        declare = task(
            "shop.revenue",
            scope=scope,
            inputs={"orders": read("shop.events", by="at")},
            write=merge("event_id", order="any"),
            audits=[audit.not_shrunk(to=0.9)],
            name="revenue",
        )
        run_task(runtime.context, runtime.declare(declare(each)), (slice_named(scope, "2026-06-09T01:00"),))
    assert message_of(runtime) == "8 rows; how many it had before is not known"


def test_a_day_that_a_month_was_written_over_is_not_shrunk_by_what_the_table_holds_of_it(runtime: RuntimeSetup) -> None:
    by_day = revenue_task(each, audits=(audit.not_shrunk(to=0.5),))
    by_month = replace(by_day, scope=Monthly("order_date", start="2026-01", slice_column="order_date"), audits=())
    runtime.put_orders(*((number, DAY, 10) for number in range(100)))
    runtime.run(runtime.declare(by_day))
    runtime.put_orders(*((number, DAY, 10) for number in range(4)))
    runtime.code[0] = "by month"
    run_task(runtime.context, runtime.declare(by_month), (slice_named(by_month.scope, "2026-06"),))
    runtime.code[0] = "v1"
    runtime.put_orders(*((number, DAY, 10) for number in range(3)))
    runtime.run(runtime.declare(by_day))
    assert message_of(runtime) == "3 rows, 4 before"
    runtime.put_orders((1, DAY, 10))
    with pytest.raises(AuditFailed, match="1 rows, 3 before"):
        runtime.run(by_day)


def message_of(runtime: RuntimeSetup) -> str:
    return next(attempt.audits[0].message for attempt in runtime.ledger.attempts("revenue") if attempt.audits)
