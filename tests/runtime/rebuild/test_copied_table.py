"""rebuild, on the memory target, of what cannot be computed again: every row is copied, and mark and tokens stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import COLUMNS, DAY, NEXT, REVENUE, RuntimeSetup, revenue_task, summed
from tests.runtime.rebuild.conftest import SIDE, Rebuilding, with_tax

from twice import PublishedSlice, Since, Whole, append_once, call, merge, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.ports import Column
from twice.core.results.run import Outcome, RunResult
from twice.core.task import Policy, TableName, Task
from twice.errors import SchemaDrift, Superseded, UsageError
from twice.runtime.rebuild.plan import RebuildRequest
from twice.runtime.rebuild.rebuild import describe, preview
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.mark import show_mark
from twice.senders.call import CallSender
from twice.targets.memory.rows import Rows

SINCE = Since("order_id", initial=0)
THREE = [(1, DAY, 10), (2, DAY, 5), (3, NEXT, 7)]
MORE = (4, NEXT, 1)


def copied(orders: Rows) -> Rows:
    return orders


def with_note(orders: Rows) -> Rows:
    """One column more."""
    return Rows((*orders.columns, Column("note", "string")), tuple((*row, "x") for row in orders.rows))


def narrower(orders: Rows) -> Rows:
    return Rows((*COLUMNS[:2], Column("amount", "int")), orders.rows)


class Incremental(Rebuilding):
    """A task that goes on from its mark."""

    write: Any = merge("order_id", order="any")

    def told(self, function: Callable[..., Any] = with_note, **options: Any) -> Task:
        inputs = {"orders": read("shop.orders", by="order_id")}
        made = task("shop.revenue", scope=SINCE, inputs=inputs, write=self.write, name="revenue", **options)
        self.runtime.code[0] = function.__name__
        return self.runtime.declare(made(function))

    def run(self, declared: Task) -> RunResult:
        return run_task(self.runtime.context, declared, (SINCE.only,))

    def upto(self, newest: int, *more: Any) -> list[tuple[Any, ...]]:
        """What is read of a source whose newest row has this number. Rows without a key stop before the newest: more
        of its number may come."""
        last = newest - 1 if self.write.kind == "append" else newest
        return [(*row, *more) for row in (*THREE, MORE) if row[0] <= last]

    def mark(self, declared: Task) -> str | None:
        return show_mark(self.runtime.context, declared).at


@pytest.fixture(params=[merge("order_id", order="any"), append_once()], ids=["merge", "append_once"])
def shop(runtime: RuntimeSetup, tmp_path: Path, request: Any) -> Incremental:
    """Three rows are read."""
    made = Incremental(runtime, tmp_path, [])
    made.write = request.param
    made.run(made.told(copied))
    return made


def test_an_incremental_table_is_copied_into_its_new_columns_and_goes_on_from_its_mark(shop: Incremental) -> None:
    declared, before = shop.told(), shop.runtime.version
    assert before is not None
    plan, columns = preview(shop.of(declared), RebuildRequest())
    assert describe(plan, columns) == "copies all rows as they are, since it goes on from its mark (NULL in note)"
    result = shop.rebuild(declared)
    rows = len(shop.upto(3))
    assert str(result) == (
        f"revenue: shop.revenue is rebuilt: all rows copied as they are, {rows} rows, version {before + 1}"
    )
    assert shop.mark(declared) == "3"
    assert shop.runtime.revenue == shop.upto(3, None)
    assert shop.runtime.target.published(SIDE, ()).version is None
    assert shop.run(declared).outcome is Outcome.NOTHING_NEW
    shop.runtime.put_orders(*THREE, MORE)
    shop.run(declared)
    assert [row[:3] for row in shop.runtime.revenue] == shop.upto(4)
    assert (shop.runtime.revenue[:2], shop.runtime.revenue[-1]) == (shop.upto(3, None)[:2], shop.upto(4, "x")[-1])
    assert [(each.kind, each.why) for each in shop.runtime.ledger.attempts("revenue") if each.kind == "rebuild"] == [
        ("rebuild", f"{rows} rows copied as they are, since it goes on from its mark")
    ]


def test_rows_that_a_run_publishes_while_the_table_is_copied_are_not_lost(shop: Incremental) -> None:
    old, declared, came = shop.told(copied), shop.told(), list[int]()

    def meanwhile(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and not came:
            came.append(1)
            shop.runtime.put_orders(*THREE, MORE)
            shop.run(old)

    with armed(meanwhile):
        assert shop.rebuild(declared).rounds == 2
    assert shop.runtime.revenue == shop.upto(4, None)
    assert shop.mark(declared) == "4"


def test_rows_that_others_add_while_the_table_is_copied_are_not_lost(shop: Incremental) -> None:
    came = list[int]()

    def meanwhile(point: Any) -> None:
        if point is Point.PUBLISHING and not came:
            came.append(1)
            held = shop.runtime.target._tables[REVENUE.name]
            _, latest = held.latest
            stray = replace(latest.files[0], name="stray", rows=(MORE,))
            held.versions.append(replace(latest, files=(*latest.files, stray), note=None))

    with armed(meanwhile):
        assert shop.rebuild(shop.told()).rounds == 2
    assert shop.runtime.revenue == [*shop.upto(3, None), (*MORE, None)]


def test_a_table_that_is_published_all_the_time_is_not_exchanged(shop: Incremental) -> None:
    old, declared, numbers = shop.told(copied), shop.told(), list(range(4, 20))

    def meanwhile(point: Any) -> None:
        if point is Point.PUBLISHING and not busy:
            busy.append(1)
            shop.runtime.put_orders(*THREE, *((n, NEXT, 1) for n in range(4, numbers.pop(0) + 1)))
            shop.run(old)
            busy.clear()

    busy: list[int] = []
    with armed(meanwhile), pytest.raises(Superseded, match="were published 5 times"):
        shop.rebuild(declared)
    assert len(shop.runtime.revenue) == len(shop.upto(3)) + 5
    assert len(shop.runtime.revenue[0]) == 3


def test_a_run_that_was_under_way_when_the_table_was_copied_lands_nothing_and_is_run_again(shop: Incremental) -> None:
    """Its rows have the old columns; the mark stays, so the next run reads them."""
    old, declared, came = shop.told(copied), shop.told(), list[int]()
    shop.runtime.put_orders(*THREE, MORE)

    def meanwhile(point: Any) -> None:
        if point is Point.PUBLISHING and not came:
            came.append(1)
            shop.rebuild(declared)

    with armed(meanwhile), pytest.raises(SchemaDrift):
        shop.run(old)
    assert shop.mark(declared) == "3"
    shop.run(declared)
    assert [row[:3] for row in shop.runtime.revenue] == shop.upto(4)
    assert (shop.runtime.revenue[:2], shop.runtime.revenue[-1]) == (shop.upto(3, None)[:2], shop.upto(4, "x")[-1])


def test_a_run_that_was_under_way_when_only_the_layout_was_copied_is_not_lost(shop: Incremental) -> None:
    declared, came = shop.told(copied), list[int]()
    shop.runtime.put_orders(*THREE, MORE)

    def meanwhile(point: Any) -> None:
        if point is Point.PUBLISHING and not came:
            came.append(1)
            shop.rebuild(declared)

    with armed(meanwhile):
        shop.run(declared)
    assert (shop.runtime.revenue, shop.mark(declared)) == (shop.upto(4), "4")


@pytest.mark.parametrize("how", [Crash, RuntimeError, KeyboardInterrupt])
def test_a_copy_that_ends_anywhere_is_ended_by_the_next_call(shop: Incremental, how: type[BaseException]) -> None:
    declared, old, new = shop.told(), shop.upto(3), shop.upto(3, None)
    for passes in range(40):
        left = [passes]

        def end(_: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise how("here")

        try:
            with armed(end):
                shop.rebuild(declared)
        except (Crash, KeyboardInterrupt, RuntimeError):
            assert left[0] < 0
            assert shop.runtime.revenue in (old, new), passes
            assert shop.mark(declared) == "3"
            shop.runtime.clock.ahead += timedelta(hours=1)
            continue
        if left[0] >= 0:
            break
    assert passes > 8
    assert shop.runtime.revenue == new
    assert shop.run(declared).outcome is Outcome.NOTHING_NEW
    assert shop.runtime.target.published(SIDE, ()).version is None
    target = shop.runtime.target
    assert not [key for key in target._staged if target.leftovers(TableName(key[0]), key[1])]
    assert "rebuild" in {each.kind for each in shop.runtime.ledger.attempts("revenue")}


def test_what_a_killed_copy_has_left_is_not_filled_further(runtime: RuntimeSetup, tmp_path: Path) -> None:
    """A merge would keep the old rows of the copy, beside those that are computed."""
    shop = Rebuilding(runtime, tmp_path, [])
    inputs = {"orders": read("shop.orders", by="order_date")}
    merged = task("shop.revenue", scope=revenue_task().scope, inputs=inputs, write=merge("revenue", order="any"))
    declared = runtime.declare(replace(merged(summed), name="revenue"))
    runtime.run(declared)

    def die(point: Any) -> None:
        if point is Point.PUBLISHING:
            raise Crash("before the exchange")

    with armed(die), pytest.raises(Crash):
        shop.rebuild(declared, copy=True)
    assert runtime.target.published(SIDE, ()).version is not None
    runtime.put_orders((1, DAY, 20))
    shop.rebuild(declared, lose_rows=1)
    assert runtime.revenue == [(DAY, 20)]


def test_effects_are_not_sent_again(runtime: RuntimeSetup, tmp_path: Path) -> None:
    got: list[Any] = []

    def received(result: PublishedSlice, _: str) -> str:
        got.append(result)
        return "ok"

    shop = Incremental(runtime, tmp_path, [])
    effects = (call(received, keyed=False, name="announce", again="on_restate"),)
    runtime.context = replace(runtime.context, senders={"call": CallSender()})
    shop.run(shop.told(copied, effects=effects))
    declared = shop.told(effects=effects)
    shop.rebuild(declared)
    shop.run(declared)
    assert len(got) == 1
    runtime.put_orders(*THREE, MORE)
    shop.run(declared)
    assert len(got) == 2


def test_days_that_were_appended_once_are_copied_and_not_appended_again(runtime: RuntimeSetup, tmp_path: Path) -> None:
    def declared(function: Callable[..., Any]) -> Task:
        inputs = {"orders": read("shop.orders", by="order_date")}
        scope = revenue_task().scope
        made = task("shop.revenue", scope=scope, inputs=inputs, write=append_once(), name="revenue")
        return runtime.declare(made(function))

    for day in ("2026-06-09", "2026-06-10"):
        runtime.run(declared(summed), day)
    shop = Rebuilding(runtime, tmp_path, [])
    with pytest.raises(UsageError, match=r"copied as a whole, since append_once\(\) keeps what was published"):
        shop.rebuild(declared(with_tax), first="2026-06-10")
    assert shop.rebuild(declared(with_tax)).copied == 2
    assert runtime.run(declared(with_tax)).outcome is Outcome.ALREADY
    assert runtime.revenue == [(DAY, 15, None), (NEXT, 7, None)]


def test_a_task_that_reads_its_own_table_is_copied(runtime: RuntimeSetup, tmp_path: Path) -> None:
    def declared(function: Callable[..., Any], *reads: str) -> Task:
        inputs = {name.rpartition(".")[2]: read(name) for name in reads}
        runtime.code[0] = function.__name__
        made = task("shop.revenue", scope=Whole(), inputs=inputs, write=replace_rows(), name="revenue")
        return runtime.declare(made(function))

    def kept(orders: Rows, revenue: Rows) -> Rows:
        return with_tax(orders)

    run_task(runtime.context, declared(summed, "shop.orders"), (Whole().only,))
    shop = Rebuilding(runtime, tmp_path, [])
    assert shop.rebuild(declared(kept, "shop.orders", "shop.revenue")).rows == 2
    assert runtime.revenue == [(DAY, 15, None), (NEXT, 7, None)]


def test_what_cannot_be_copied_is_refused_and_nothing_is_changed(shop: Incremental) -> None:
    declared = shop.told(narrower)
    for step in (lambda: preview(shop.of(declared), RebuildRequest()), lambda: shop.rebuild(declared)):
        with pytest.raises(UsageError, match="amount is bigint in the table and int in the result") as refused:
            step()
        assert refused.value.fix == "Give the result a type that holds every value of the table's column."
    assert shop.runtime.revenue == shop.upto(3)


def test_a_key_that_is_new_has_no_value_in_copied_rows(runtime: RuntimeSetup, tmp_path: Path) -> None:
    shop = Incremental(runtime, tmp_path, [])
    shop.run(shop.told(copied))
    shop.write = merge(["order_id", "note"], order="any")
    with pytest.raises(UsageError, match=r"note would be NULL, and merge\(\) finds rows by it"):
        shop.rebuild(shop.told())


def test_slices_that_could_be_computed_are_copied_if_that_is_asked_for(runtime: RuntimeSetup, tmp_path: Path) -> None:
    runtime.run(runtime.declare(revenue_task()))
    runtime.put_orders((9, DAY, 900))
    shop = Rebuilding(runtime, tmp_path, [])
    declared = shop.declare(with_tax, policy=Policy())
    with pytest.raises(UsageError, match=r"copied as a whole, as --copy says, and no slice is computed"):
        shop.rebuild(declared, copy=True, adopted=True)
    assert shop.rebuild(declared, copy=True).copied == 1
    assert runtime.revenue == [(DAY, 15, None)]
    assert runtime.run(declared).why.startswith("the code or its options changed")
