"""rebuild, on the memory target: what it computes, what it copies, what survives it, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, REVENUE, RuntimeSetup, revenue_task, summed
from tests.runtime.rebuild.conftest import SIDE, Rebuilding, as_text, generation, with_tax
from tests.sample import sample

from twice import PublishedSlice, Whole, call, merge, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.results.run import Outcome
from twice.core.task import Policy, Task
from twice.errors import SchemaDrift, Superseded, UsageError
from twice.runtime.rebuild.plan import RebuildRequest, plan_rebuild
from twice.runtime.rebuild.rebuild import abandon
from twice.runtime.run.run_task import run_task
from twice.senders.call import CallSender

THIRD = date(2026, 6, 11)


def test_a_run_with_other_columns_says_which_need_a_rebuild_and_how(shop: Rebuilding) -> None:
    with pytest.raises(SchemaDrift) as refused:
        shop.runtime.run(shop.declare())
    text = str(refused.value)
    assert "orders: set evolve=True in the task's policy" in text
    assert "revenue: cast it to bigint in the task (not every value fits)." in text
    assert "To change revenue in the table: twice rebuild revenue" in text
    assert "The table is unchanged." in text


def test_a_rebuild_fills_every_slice_aside_and_exchanges_the_table_in_one_commit(shop: Rebuilding) -> None:
    before = shop.runtime.version
    assert before is not None
    result = shop.rebuild(shop.declare())
    assert (result.computed, result.copied, result.rows, result.version) == (2, 0, 2, before + 1)
    assert str(result) == f"revenue: shop.revenue is rebuilt: 2 slices computed again, 2 rows, version {before + 1}"
    assert shop.runtime.revenue == [(DAY, "15", 2), (NEXT, "7", 1)]
    assert [column.type for column in shop.runtime.target.read(REVENUE).columns] == ["date", "string", "bigint"]
    assert (generation(shop, "2026-06-09"), generation(shop, "2026-06-10")) == (2, 2)
    assert shop.runtime.target.published(SIDE, ()).version is None


def test_after_a_rebuild_nothing_is_stale_and_the_next_run_publishes_nothing(shop: Rebuilding) -> None:
    declared = shop.declare()
    shop.rebuild(declared)
    result = shop.runtime.run(declared)
    assert (result.outcome, result.why) == (Outcome.ALREADY, "same code, same inputs")
    assert result.rows == 1
    run = shop.runtime.ledger.run("revenue", "2026-06-09")
    assert run is not None and (run.generation, run.rows) == (2, 1)
    restated = shop.runtime.run(declared, kind="restate")
    assert restated.outcome is Outcome.IDENTICAL
    assert generation(shop, "2026-06-09") == 3


def test_slices_outside_the_range_are_copied_and_stay_what_they_were(shop: Rebuilding) -> None:
    declared = shop.declare(with_tax, policy=Policy())
    result = shop.rebuild(declared, first="2026-06-10", last="2026-06-10")
    assert (result.computed, result.copied) == (1, 1)
    assert shop.runtime.revenue == [(DAY, 15, None), (NEXT, 7, 14)]
    assert [(each.copied, each.slices[0].label) for each in shop.reports] == [
        (True, "2026-06-09"),
        (False, "2026-06-10"),
    ]
    assert shop.runtime.run(declared, "2026-06-10").outcome is Outcome.ALREADY
    kept = shop.runtime.ledger.run("revenue", "2026-06-09")
    assert kept is not None and kept.intention is not None and kept.intention.code == "v1"
    again = shop.runtime.run(declared, "2026-06-09")
    assert again.outcome is Outcome.PUBLISHED
    assert again.why.startswith("the code or its options changed")
    assert shop.runtime.revenue == [(DAY, 15, 30), (NEXT, 7, 14)]


def test_values_that_may_not_fit_are_not_copied(shop: Rebuilding) -> None:
    with pytest.raises(
        UsageError, match="2026-06-09 cannot be copied into the new columns: revenue is bigint in the table"
    ):
        shop.rebuild(shop.declare(), first="2026-06-10")
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]


def test_rows_that_no_slice_owns_are_not_lost(shop: Rebuilding) -> None:
    held = shop.runtime.target._tables[REVENUE.name]
    _, latest = held.latest
    stray = replace(latest.files[0], name="stray", value=date(2025, 1, 1), rows=((date(2025, 1, 1), 1),))
    held.versions.append(replace(latest, files=(*latest.files, stray), note=None))
    with pytest.raises(UsageError, match=r"1 row of shop.revenue belong to no published slice"):
        shop.rebuild(shop.declare())
    assert len(shop.runtime.revenue) == 3


def test_rows_that_others_add_before_the_exchange_are_not_lost(shop: Rebuilding) -> None:
    def others(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(shop.reports) == 2:
            held = shop.runtime.target._tables[REVENUE.name]
            _, latest = held.latest
            stray = replace(latest.files[0], name="stray", value=date(2025, 1, 1), rows=((date(2025, 1, 1), 1),))
            held.versions.append(replace(latest, files=(*latest.files, stray), note=None))

    with armed(others), pytest.raises(UsageError, match="belong to no published slice"):
        shop.rebuild(shop.declare())
    assert len(shop.runtime.revenue) == 3


def test_a_slice_published_while_it_was_filled_is_filled_again(shop: Rebuilding) -> None:
    old, declared = revenue_task(), shop.declare()
    published: list[int] = []

    def meanwhile(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(shop.reports) == 2 and not published:
            published.append(1)
            shop.runtime.put_orders((1, DAY, 10), (2, DAY, 6), (3, NEXT, 7), (4, THIRD, 1))
            shop.runtime.code[0] = "v1"
            for day in ("2026-06-09", "2026-06-11"):
                shop.runtime.run(old, day)
            shop.runtime.code[0] = "as_text"

    with armed(meanwhile):
        result = shop.rebuild(declared)
    assert result.rounds == 2
    assert shop.runtime.revenue == [(DAY, "16", 2), (NEXT, "7", 1), (THIRD, "1", 1)]
    assert generation(shop, "2026-06-09") == 3
    assert [each.slices[0].label for each in shop.reports[2:]] == ["2026-06-09", "2026-06-11"]


def test_a_slice_restated_while_it_was_filled_is_filled_again(shop: Rebuilding) -> None:
    """From the same inputs: that it is the same is not known before it is computed."""
    old, declared, restated = revenue_task(), shop.declare(), list[int]()

    def meanwhile(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and len(shop.reports) == 2 and not restated:
            restated.append(1)
            shop.runtime.code[0] = "v1"
            shop.runtime.run(old, kind="restate")
            shop.runtime.code[0] = "as_text"

    with armed(meanwhile):
        assert shop.rebuild(declared).rounds == 2
    assert (generation(shop, "2026-06-09"), generation(shop, "2026-06-10")) == (3, 2)


def test_a_table_that_is_published_all_the_time_is_not_exchanged(shop: Rebuilding) -> None:
    old, declared = revenue_task(), shop.declare()

    def meanwhile(point: Any) -> None:
        if point is Point.AFTER_COMPUTE and shop.runtime.code[0] == "as_text" and shop.reports:
            shop.runtime.code[0] = "v1"
            shop.runtime.run(old, kind="restate")
            shop.runtime.code[0] = "as_text"

    with armed(meanwhile), pytest.raises(Superseded, match="were published 5 times"):
        shop.rebuild(declared)
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]


POINTS = [
    Point.AFTER_PLAN,
    Point.AFTER_COMPUTE,
    Point.IN_STAGE,
    Point.AFTER_STAGE,
    Point.PUBLISHING,
    Point.BEFORE_COMMIT,
    Point.AFTER_COMMIT,
    Point.AFTER_PUBLISH,
    Point.AFTER_FINISH,
]


@pytest.mark.parametrize("passes", sample(range(4), of=[0, 2]))
@pytest.mark.parametrize("point", POINTS)
def test_a_rebuild_that_dies_anywhere_is_ended_by_the_next_call(shop: Rebuilding, point: Point, passes: int) -> None:
    """At each time that it comes by: while a slice is filled aside, and while the table is exchanged."""
    declared, left = shop.declare(), [passes]

    def die(passed: Any) -> None:
        if passed is point:
            if not left[0]:
                raise Crash(point.value)
            left[0] -= 1

    try:
        with armed(die):
            shop.rebuild(declared)
    except Crash:
        pass
    else:
        pytest.skip("it does not come by so often")
    whole = [(DAY, "15", 2), (NEXT, "7", 1)]
    assert shop.runtime.revenue in ([(DAY, 15), (NEXT, 7)], whole)
    shop.runtime.clock.ahead += timedelta(hours=1)
    shop.rebuild(declared)
    assert shop.runtime.revenue == whole
    assert (generation(shop, "2026-06-09"), generation(shop, "2026-06-10")) == (2, 2)
    assert shop.runtime.target.published(SIDE, ()).version is None
    assert shop.runtime.run(declared).outcome is Outcome.ALREADY
    assert not shop.runtime.leftovers


def test_a_rebuild_goes_on_with_what_is_filled_unless_the_code_changed(shop: Rebuilding) -> None:
    declared = shop.declare()
    with armed(crash_at(Point.AFTER_COMPUTE)), pytest.raises(Crash):
        shop.rebuild(declared)
    shop.runtime.clock.ahead += timedelta(hours=1)
    assert plan_rebuild(shop.of(declared), RebuildRequest()).filling.missing == ("2026-06-09", "2026-06-10")

    def dies_before_the_exchange(passed: Any) -> None:
        if passed is Point.AFTER_COMPUTE and len(shop.reports) == 2:
            raise Crash("before the exchange")

    with armed(dies_before_the_exchange), pytest.raises(Crash):
        shop.rebuild(declared)
    assert plan_rebuild(shop.of(declared), RebuildRequest()).filling.ready == ("2026-06-09", "2026-06-10")
    shop.reports.clear()
    shop.runtime.clock.ahead += timedelta(hours=1)
    other = shop.declare(with_tax)
    shop.rebuild(other)
    assert [each.result.outcome for each in shop.reports if each.result] == [Outcome.PUBLISHED] * 2
    assert shop.runtime.revenue == [(DAY, 15, 30), (NEXT, 7, 14)]


def test_abandon_drops_what_was_filled_and_leaves_the_table(shop: Rebuilding) -> None:
    declared = shop.declare()

    def dies_before_the_exchange(passed: Any) -> None:
        if passed is Point.AFTER_COMPUTE and len(shop.reports) == 2:
            raise Crash("before the exchange")

    with armed(dies_before_the_exchange), pytest.raises(Crash):
        shop.rebuild(declared)
    forgotten: list[int] = []
    assert abandon(shop.of(declared), lambda: forgotten.append(1))
    assert not abandon(shop.of(declared), lambda: None)
    assert forgotten == [1]
    assert shop.runtime.target.published(SIDE, ()).version is None
    assert shop.runtime.revenue == [(DAY, 15), (NEXT, 7)]


def test_a_rebuild_in_threads_gives_the_same_table(shop: Rebuilding) -> None:
    shop.rebuild(shop.declare(), parallel=2)
    assert shop.runtime.revenue == [(DAY, "15", 2), (NEXT, "7", 1)]


class Watcher:
    """What a person who waits is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begins(self, step: str, where: str = "", detail: str = "") -> None:
        self.said.append(f"{step} {where}")

    def learns(self, fact: str) -> None: ...

    def counts(self, at: int, total: int, noun: str) -> None:
        self.said.append(f"{noun} {at} of {total}")

    def ends(self) -> None: ...


@pytest.mark.parametrize("copy", [False, True])
def test_a_rebuild_says_what_it_is_doing(shop: Rebuilding, copy: bool) -> None:
    watcher = Watcher()
    shop.runtime.context = replace(shop.runtime.context, progress=watcher)
    shop.rebuild(shop.declare(with_tax, policy=Policy()), copy=copy)
    steps = [f"slice {n} of 2" for n in (1, 2)] if not copy else ["copying its rows revenue"]
    wanted = ["looking what is to be done revenue", *steps, "exchanging the table revenue"]
    wanted.append("dropping the side table revenue")
    assert [said for said in watcher.said if said in wanted] == wanted
    assert ("stage revenue__rebuild[2026-06-10]" in watcher.said) is not copy


@pytest.mark.parametrize("again", ["never", "on_restate", "when_changed"])
def test_effects_are_not_sent_again(runtime: RuntimeSetup, tmp_path: Path, again: Any) -> None:
    got: list[Any] = []

    def received(result: PublishedSlice, _: str) -> str:
        got.append(result)
        return "ok"

    effects = (call(received, keyed=False, name="announce", again=again),)
    runtime.context = replace(runtime.context, senders={"call": CallSender()})
    runtime.run(runtime.declare(replace(revenue_task(), effects=effects)))
    assert len(got) == 1
    runtime.code[0] = "as_text"
    other = runtime.declare(replace(revenue_task(as_text, audits=()), effects=effects))
    Rebuilding(runtime, tmp_path, []).rebuild(other)
    runtime.run(other)
    assert len(got) == 1
    runtime.run(other, kind="restate")  # what nobody was told of is told by the next publish, where that is declared
    assert len(got) == (1 if again == "never" else 2)


def declared_as(runtime: RuntimeSetup, function: Callable[..., Any], scope: Any, write: Any) -> Task:
    by = None if isinstance(scope, Whole) else "order_date"
    inputs = {"orders": read("shop.orders", by=by)}
    runtime.code[0] = function.__name__
    return runtime.declare(task("shop.revenue", scope=scope, inputs=inputs, write=write, name="revenue")(function))


def test_a_merged_table_is_rebuilt_too(runtime: RuntimeSetup, tmp_path: Path) -> None:
    shop = Rebuilding(runtime, tmp_path, [])
    daily, merged = revenue_task().scope, merge("order_date", order="any")
    for day in ("2026-06-09", "2026-06-10"):
        runtime.run(declared_as(runtime, summed, daily, merged), day)
    assert shop.rebuild(declared_as(runtime, as_text, daily, merged)).computed == 2
    assert runtime.revenue == [(DAY, "15", 2), (NEXT, "7", 1)]
    with pytest.raises(UsageError, match="cannot be copied one by one"):
        shop.rebuild(declared_as(runtime, as_text, daily, merged), first="2026-06-10")


def test_a_table_that_is_one_slice_is_rebuilt_too(runtime: RuntimeSetup, tmp_path: Path) -> None:
    shop, whole = Rebuilding(runtime, tmp_path, []), Whole()
    run_task(runtime.context, declared_as(runtime, summed, whole, replace_rows()), (whole.only,))
    declared = declared_as(runtime, as_text, whole, replace_rows())
    with pytest.raises(UsageError, match="it has no range"):
        shop.rebuild(declared, first="2026-06-10")
    assert shop.rebuild(declared).computed == 1
    assert runtime.revenue == [(DAY, "15", 2), (NEXT, "7", 1)]
    assert generation(shop, whole.only.label) == 2
    assert run_task(runtime.context, declared, (whole.only,)).outcome is Outcome.ALREADY
