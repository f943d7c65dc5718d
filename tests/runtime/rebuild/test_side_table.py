"""The side table of a rebuild: whose it is, which code has filled it, who works on it, what it may not take away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, REVENUE, RuntimeSetup, revenue_task
from tests.runtime.rebuild.conftest import SIDE, Rebuilding, as_text, with_tax

from twice import merge, read, task
from twice.core.backfill.plan import BackfillRequest
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.ports import Column, Shape
from twice.core.results.run import Outcome, RunRequest
from twice.core.slice import WHOLE
from twice.core.table.token import CommitNote, token_name
from twice.core.task import Task
from twice.core.write import Layout, ReplaceRows, WritePlan
from twice.errors import DeclarationError, Interrupted, RunError, SliceBusy, Superseded, TableChanged, UsageError
from twice.runtime.backfill.backfill import plan_backfill
from twice.runtime.backfill.worker import Event, Stop, work
from twice.runtime.rebuild.rebuild import abandon
from twice.runtime.run.run_task import run_task
from twice.targets.memory.rows import Rows

KEYED = (Column("order_date", "date"), Column("id", "bigint"), Column("amount", "bigint"))
LEGACY = (date(2020, 5, 1), 777, 42)


def each_order(orders: Rows) -> Rows:
    return Rows(KEYED, tuple((day, order, amount) for order, day, amount in orders.rows))


def other_keys(orders: Rows) -> Rows:
    return Rows(KEYED, tuple((day, order + 1000, amount) for order, day, amount in orders.rows))


def by_number(orders: Rows) -> Rows:
    """The key under another name."""
    columns = (KEYED[0], Column("number", "bigint"), KEYED[2])
    return Rows(columns, each_order(orders).rows)


def merged(runtime: RuntimeSetup, function: Callable[..., Any], *key: str, **options: Any) -> Task:
    runtime.code[0] = function.__name__
    made = task(
        "shop.revenue",
        scope=revenue_task().scope,
        inputs={"orders": read("shop.orders", by="order_date")},
        write=merge(key or ("order_date", "id"), order="any", **options),
        name="revenue",
    )
    return runtime.declare(made(function))


@pytest.fixture
def orders(runtime: RuntimeSetup, tmp_path: Path) -> Rebuilding:
    """Two days merged by their keys."""
    declared = merged(runtime, each_order)
    for day in ("2026-06-09", "2026-06-10"):
        runtime.run(declared, day)
    return Rebuilding(runtime, tmp_path, [])


def dying_before_the_exchange(rebuilding: Rebuilding, declared: Task, fills: int = 2) -> None:
    """Killed once so much is filled, and its lease is over."""

    def die(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(rebuilding.reports) == fills:
            raise Crash("killed")

    with armed(die), pytest.raises(Crash):
        rebuilding.rebuild(declared)
    rebuilding.reports.clear()
    rebuilding.runtime.clock.ahead += timedelta(hours=1)


def add_by_hand(runtime: RuntimeSetup, *rows: tuple[Any, ...]) -> None:
    """As another writer of the table adds them."""
    plan = WritePlan(ReplaceRows((WHOLE,)), (WHOLE,), ("other",))
    held = runtime.target.published(REVENUE, ["other"]).generations["other"]
    every = Rows(runtime.target.read(REVENUE).columns, (*runtime.target.read(REVENUE).rows, *rows))
    staged = runtime.target.stage(REVENUE, every, plan, f"other-{held}")
    runtime.target.commit(staged, {"other": held}, CommitNote("other", "run", {"other": held + 1}))


# --- whose it is ---


def somebody_elses(runtime: RuntimeSetup) -> None:
    columns = (Column("order_date", "date"), Column("revenue", "bigint"))
    into = runtime.target.prepare(SIDE, Shape(columns), Layout(revenue_task().scope.held_in), False)  # type: ignore[union-attr]
    plan = WritePlan(ReplaceRows((WHOLE,)), (WHOLE,), ("x/y",))
    staged = runtime.target.stage(SIDE, Rows(columns, ((date(2026, 5, 1), 42),)), plan, "zz", into=into)
    runtime.target.commit(staged, {"x/y": 0}, CommitNote("zz", "run", {"x/y": 1}))


def test_a_table_of_its_name_that_a_rebuild_did_not_make_is_not_filled(shop: Rebuilding) -> None:
    declared = shop.runtime.declare(revenue_task(audits=()))
    somebody_elses(shop.runtime)
    with pytest.raises(DeclarationError, match="is not a table that this task filled beside its own") as refused:
        shop.rebuild(declared)
    assert refused.value.now == "Nothing was changed."
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]
    assert shop.runtime.target.read(SIDE).rows == ((date(2026, 5, 1), 42),)


def test_a_table_of_its_name_that_a_rebuild_did_not_make_is_not_abandoned(shop: Rebuilding) -> None:
    declared = shop.runtime.declare(revenue_task(audits=()))
    somebody_elses(shop.runtime)
    with pytest.raises(DeclarationError, match="twice neither fills nor drops it"):
        abandon(shop.of(declared), lambda: None)
    assert shop.runtime.target.read(SIDE).rows == ((date(2026, 5, 1), 42),)


# --- what it was filled with ---


def test_what_other_code_has_filled_does_not_stay_among_merged_rows(orders: Rebuilding) -> None:
    before = orders.runtime.revenue
    dying_before_the_exchange(orders, merged(orders.runtime, other_keys))
    orders.rebuild(merged(orders.runtime, each_order))
    assert orders.runtime.revenue == before


def test_what_other_inputs_have_filled_does_not_stay_among_merged_rows(orders: Rebuilding) -> None:
    """The second order of the day was a mistake, and is gone: a clean fill does not have it."""
    declared = merged(orders.runtime, each_order)
    dying_before_the_exchange(orders, declared)
    orders.runtime.put_orders((1, DAY, 10), (3, NEXT, 7))
    orders.rebuild(declared, lose_rows=1)
    assert orders.runtime.revenue == [(DAY, 1, 10), (NEXT, 3, 7)]


def test_what_was_published_meanwhile_is_merged_into_a_side_table_that_is_filled_from_the_start(
    orders: Rebuilding,
) -> None:
    declared, published = merged(orders.runtime, each_order), list[int]()

    def meanwhile(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(orders.reports) == 2 and not published:
            published.append(1)
            orders.runtime.put_orders((1, DAY, 10), (3, NEXT, 7))
            orders.runtime.run(declared, "2026-06-09", "restate")

    with armed(meanwhile):
        assert orders.rebuild(declared, lose_rows=1).rounds == 2
    assert orders.runtime.revenue == [(DAY, 1, 10), (NEXT, 3, 7)]


def test_merged_slices_that_are_filled_and_still_right_are_not_computed_again(orders: Rebuilding) -> None:
    declared = merged(orders.runtime, each_order)
    dying_before_the_exchange(orders, declared)
    orders.rebuild(declared)
    assert [each.result.outcome for each in orders.reports if each.result] == [Outcome.ALREADY] * 2


def test_columns_that_were_changed_twice_are_filled_from_the_start(shop: Rebuilding) -> None:
    dying_before_the_exchange(shop, shop.declare(as_text))
    shop.rebuild(shop.declare(with_tax))
    assert shop.runtime.revenue == [(DAY, 15, 30), (NEXT, 7, 14)]
    assert shop.runtime.target.published(SIDE, ()).version is None


def test_columns_that_changed_with_an_input_alone_are_filled_from_the_start(shop: Rebuilding) -> None:
    """The same code, which gives what it reads."""
    more: list[int] = []

    def given(orders: Rows) -> Rows:
        return with_tax(orders) if more else as_text(orders)

    dying_before_the_exchange(shop, shop.declare(given))
    more.append(1)
    shop.rebuild(shop.declare(given))
    assert shop.runtime.revenue == [(DAY, 15, 30), (NEXT, 7, 14)]


# --- who works on it ---


def test_a_side_table_that_is_dropped_under_a_rebuild_is_said_to_be_gone(shop: Rebuilding) -> None:
    declared = shop.declare(as_text)

    def others(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(shop.reports) == 2:
            abandon(shop.of(declared), lambda: None)

    with armed(others), pytest.raises(Superseded, match="was dropped by another command") as refused:
        shop.rebuild(declared)
    assert refused.value.now == "This command did not exchange the table."
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]


def test_a_side_table_that_is_dropped_between_two_slices_is_not_made_again_by_the_next(
    shop: Rebuilding,
) -> None:
    declared, passed = shop.declare(as_text), list[int]()

    def others(point: Any) -> None:
        if point is Point.AFTER_FINISH and not passed:
            passed.append(1)
            abandon(shop.of(declared), lambda: None)

    with armed(others), pytest.raises(Superseded, match="was dropped by another command"):
        shop.rebuild(declared)
    assert shop.runtime.target.published(SIDE, ()).version is None


def test_a_second_rebuild_at_the_same_time_is_refused(shop: Rebuilding) -> None:
    declared, refused = shop.declare(as_text), list[SliceBusy]()

    def second(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(shop.reports) == 2 and not refused:
            with pytest.raises(SliceBusy, match="another rebuild of it is at work") as busy:
                shop.rebuild(declared)
            refused.append(busy.value)

    with armed(second):
        shop.rebuild(declared)
    assert refused[0].now == "This command changed nothing."
    assert shop.runtime.revenue == [(DAY, "15", 2), (NEXT, "7", 1)]
    shop.rebuild(declared)


def test_a_table_that_others_change_at_each_exchange_is_not_said_to_be_published(shop: Rebuilding) -> None:
    declared = shop.declare(as_text)

    commit = shop.runtime.target.commit

    def changed(staged: Any, expected: Any, note: Any) -> Any:
        if staged.table == REVENUE:
            raise TableChanged("the table changed after this task read it", fix="Run the task again.")
        return commit(staged, expected, note)

    shop.runtime.target.commit = changed  # type: ignore[method-assign]
    with pytest.raises(TableChanged, match="the table changed after this task read it"):
        shop.rebuild(declared)
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]


@pytest.mark.parametrize("ends", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("point", [Point.AFTER_LOOK, Point.AFTER_PUBLISH])
def test_a_fill_that_ends_badly_speaks_of_the_task_that_was_declared(
    shop: Rebuilding, ends: type[BaseException], point: Point
) -> None:
    declared = shop.declare(as_text)

    def end(passed: Any) -> None:
        if passed is point:
            raise ends("here")

    with armed(end), pytest.raises((RunError, Interrupted)) as ended:
        shop.rebuild(declared)
    text = str(ended.value)
    assert "__rebuild" not in text and "holds the new rows" not in text
    assert "The table is unchanged; the copy that is being built stays." in text
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]


# --- what it may not take away ---


def test_a_row_that_no_slice_computes_again_is_not_lost(orders: Rebuilding) -> None:
    add_by_hand(orders.runtime, LEGACY)
    declared, before = merged(orders.runtime, each_order), orders.runtime.revenue
    with pytest.raises(UsageError, match=r"1 row of shop.revenue has a key that no slice computes again") as refused:
        orders.rebuild(declared)
    assert refused.value.now == "The table is unchanged; the copy that is being built stays."
    assert "twice rebuild revenue --lose-rows 1" in refused.value.fix
    assert orders.runtime.revenue == before
    orders.rebuild(declared, lose_rows=1)
    assert orders.runtime.revenue == [row for row in before if row != LEGACY]


def test_a_row_that_is_added_after_the_loss_was_named_is_not_lost(orders: Rebuilding) -> None:
    add_by_hand(orders.runtime, LEGACY)
    declared = merged(orders.runtime, each_order)

    def others(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(orders.reports) == 2:
            add_by_hand(orders.runtime, (date(2020, 5, 2), 778, 43))

    with armed(others), pytest.raises(UsageError, match=r"2 rows of shop.revenue have keys"):
        orders.rebuild(declared, lose_rows=1)
    assert LEGACY in orders.runtime.revenue


def test_where_the_key_has_other_columns_every_row_counts(orders: Rebuilding) -> None:
    declared = merged(orders.runtime, by_number, "order_date", "number")
    with pytest.raises(UsageError, match="its key, order_date, number, is of other columns or types now") as refused:
        orders.rebuild(declared)
    assert "--lose-rows 3" in refused.value.fix
    orders.rebuild(declared, lose_rows=3)
    assert [column.name for column in orders.runtime.target.read(REVENUE).columns][1] == "number"


# --- who made a slice ---


def test_a_slice_that_was_copied_was_not_made_since_a_backfill_was_planned(shop: Rebuilding) -> None:
    declared = shop.runtime.declare(revenue_task())
    shop.runtime.put_orders((1, DAY, 10), (2, DAY, 5), (3, NEXT, 8))
    shop.rebuild(declared, first="2026-06-09", last="2026-06-09")
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]
    note = shop.runtime.target.provenance(REVENUE, token_name("p", "revenue", "2026-06-10"), 2)
    assert note is not None and note.copied == {"2026-06-10"}
    assert CommitNote.from_json(note.to_json()) == note
    slices = (declared.scope.slice_of("2026-06-10"),)  # type: ignore[union-attr]
    result = run_task(shop.runtime.context, declared, slices, RunRequest("restate", planned={"2026-06-10": 1}))
    assert result.outcome is Outcome.CHANGED
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 8)]


@pytest.mark.parametrize("batch", ["off", 2])
def test_a_restating_backfill_that_was_planned_before_a_copy_makes_what_was_only_copied(
    shop: Rebuilding, batch: Any
) -> None:
    declared = shop.runtime.declare(revenue_task())
    asked = BackfillRequest("revenue", "2026-06-09", "2026-06-10", ("published",), batch=batch, restate=True)
    shop.runtime.ledger.backfills.create(plan_backfill(shop.runtime.context, asked, "again"))
    shop.runtime.put_orders((1, DAY, 10), (2, DAY, 5), (3, NEXT, 8))
    shop.rebuild(declared, first="2026-06-09", last="2026-06-09")
    done = list[Event]()
    work(shop.runtime.context, "again", done.append, Stop.never())
    ends = sorted((end.label, end.outcome) for event in done for end in event.ends)
    assert ends == [("2026-06-09", "already published"), ("2026-06-10", "changed")]
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 8)]


def test_a_slice_that_was_made_since_and_then_copied_is_not_made_again(shop: Rebuilding) -> None:
    declared = shop.runtime.declare(revenue_task())
    shop.runtime.run(declared, "2026-06-10", "restate")
    shop.rebuild(declared, first="2026-06-09", last="2026-06-09")
    slices = (declared.scope.slice_of("2026-06-10"),)  # type: ignore[union-attr]
    result = run_task(shop.runtime.context, declared, slices, RunRequest("restate", planned={"2026-06-10": 1}))
    assert result.outcome is Outcome.ALREADY
    assert result.why == "nothing done: 2026-06-10 was published (generation 3) after this run was planned"


def test_a_slice_that_a_rebuild_computed_was_made_by_it(shop: Rebuilding) -> None:
    declared = shop.runtime.declare(revenue_task())
    shop.rebuild(declared)
    slices = (declared.scope.slice_of("2026-06-10"),)  # type: ignore[union-attr]
    result = run_task(shop.runtime.context, declared, slices, RunRequest("restate", planned={"2026-06-10": 1}))
    assert result.outcome is Outcome.ALREADY
