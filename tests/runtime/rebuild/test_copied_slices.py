"""rebuild, on the memory target: adopted slices are copied, not computed again, unless a person says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, NEXT, REVENUE, RuntimeSetup, revenue_task, summed
from tests.runtime.rebuild.conftest import SIDE, Rebuilding, with_tax

from twice import Whole, merge, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.ports import Column
from twice.core.results.run import Outcome
from twice.core.task import Policy, Task
from twice.errors import UsageError
from twice.runtime.rebuild.plan import RebuildRequest
from twice.runtime.rebuild.rebuild import describe, preview
from twice.runtime.run.run_task import run_task
from twice.runtime.upkeep.adopt import AdoptRequest, adopt
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.takeover import take_over
from twice.targets.memory.rows import Rows

FIRST, SECOND = "2026-06-09", "2026-06-10"
PLAIN = Policy()


def renaming(orders: Rows) -> Rows:
    """revenue becomes turnover."""
    columns = (Column("order_date", "date"), Column("turnover", "bigint"))
    totals = {day: sum(row[2] for row in orders.rows if row[1] == day) for day in orders.values("order_date")}
    return Rows(columns, tuple(sorted(totals.items())))


@pytest.fixture
def adopted(runtime: RuntimeSetup, tmp_path: Path) -> Iterator[Rebuilding]:
    """The first day was there before twice, with a revenue that no order gives; the second was published by a run."""
    declared = runtime.declare(revenue_task())
    into = Rows((Column("order_date", "date"), Column("revenue", "bigint")), ((DAY, 1500),))
    runtime.run(declared, SECOND)
    held = runtime.target._tables["shop.revenue"]
    _, latest = held.latest
    old = replace(latest.files[0], name="old", value=DAY, rows=into.rows)
    held.versions.append(replace(latest, files=(*latest.files, old), note=None))
    adopt(runtime.context, declared, AdoptRequest("ana", "from the old job", FIRST))
    runtime.put_orders((3, NEXT, 7))  # what the first day was made of is gone
    yield Rebuilding(runtime, tmp_path, [])


def test_an_adopted_slice_is_copied_and_stays_adopted(adopted: Rebuilding) -> None:
    declared = adopted.declare(with_tax, policy=PLAIN)
    plan, columns = preview(adopted.of(declared), RebuildRequest())
    assert describe(plan, columns) == (
        "computes 2026-06-10 again, and copies 2026-06-09 (1 of them adopted) as they are (NULL in tax)"
    )
    result = adopted.rebuild(declared)
    assert (result.computed, result.copied) == (1, 1)
    assert adopted.runtime.revenue == [(DAY, 1500, None), (NEXT, 7, 14)]
    kept = adopted.runtime.run(declared, FIRST)
    assert (kept.outcome, kept.why[:8]) == (Outcome.ALREADY, "adopted:")
    assert adopted.rebuild(declared).copied == 1  # the exchange has kept what it is
    assert adopted.runtime.revenue == [(DAY, 1500, None), (NEXT, 7, 14)]


def test_the_ledger_says_what_is_adopted_where_the_log_forgot_it(adopted: Rebuilding) -> None:
    held = adopted.runtime.target._tables["shop.revenue"]
    held.versions[:] = [replace(version, note=None) for version in held.versions]
    assert adopted.rebuild(adopted.declare(with_tax, policy=PLAIN)).copied == 1
    assert adopted.runtime.revenue == [(DAY, 1500, None), (NEXT, 7, 14)]


def test_adopted_slices_whose_values_do_not_fit_are_refused_by_name_before_anything_is_filled(
    adopted: Rebuilding,
) -> None:
    declared = adopted.declare()
    for step in (lambda: preview(adopted.of(declared), RebuildRequest()), lambda: adopted.rebuild(declared)):
        with pytest.raises(UsageError, match="2026-06-09 cannot be copied into the new columns") as refused:
            step()
        assert refused.value.fix == "To compute adopted slices again too: --adopted."
    assert adopted.runtime.target.published(SIDE, ()).version is None
    assert adopted.runtime.revenue == [(DAY, 1500), (NEXT, 7)]


def test_a_person_may_have_adopted_slices_computed_again(adopted: Rebuilding) -> None:
    declared = adopted.declare()
    plan, columns = preview(adopted.of(declared), RebuildRequest(adopted=True))
    assert describe(plan, columns) == "computes 2026-06-09, 2026-06-10 (1 of them adopted) again"
    assert adopted.rebuild(declared, adopted=True).computed == 2
    assert adopted.runtime.revenue == [(NEXT, "7", 1)]
    assert adopted.runtime.run(declared, FIRST).why == "same code, same inputs"


def test_a_range_alone_is_no_consent_to_compute_adopted_slices(adopted: Rebuilding) -> None:
    declared = adopted.declare(with_tax, policy=PLAIN)
    assert adopted.rebuild(declared, first=FIRST, last=FIRST).copied == 2
    assert adopted.runtime.revenue == [(DAY, 1500, None), (NEXT, 7, None)]


def test_a_renamed_column_keeps_its_values_in_copied_rows_only_if_its_new_name_is_given(adopted: Rebuilding) -> None:
    declared = adopted.declare(renaming, policy=PLAIN)
    with pytest.raises(UsageError, match="revenue would be gone, and turnover of the same type NULL") as refused:
        adopted.rebuild(declared)
    assert "If revenue is turnover now: --rename revenue=turnover." in str(refused.value.fix)
    with pytest.raises(UsageError, match="the table must have income and no turnover"):
        adopted.rebuild(declared, renamed={"income": "turnover"})
    with pytest.raises(UsageError, match="all of them are computed again"):
        adopted.rebuild(declared, adopted=True, renamed={"revenue": "turnover"})
    assert adopted.rebuild(declared, renamed={"Revenue": "turnover"}).copied == 1
    assert adopted.runtime.revenue == [(DAY, 1500), (NEXT, 7)]
    assert [column.name for column in adopted.runtime.target.read(REVENUE).columns] == ["order_date", "turnover"]


def test_an_adopted_slice_of_merged_rows_is_refused_with_both_ways_out(adopted: Rebuilding) -> None:
    made = task(
        "shop.revenue",
        scope=revenue_task().scope,
        inputs={"orders": read("shop.orders", by="order_date")},
        write=merge("order_date", order="any"),
        name="revenue",
    )(with_tax)
    with pytest.raises(UsageError, match="one by one, and 2026-06-09 was adopted") as refused:
        adopted.rebuild(adopted.runtime.declare(made))
    assert "To compute all slices again: add --adopted." in refused.value.fix
    assert "copy the whole table as it is: --copy" in refused.value.fix
    adopted.rebuild(made, copy=True)
    assert adopted.runtime.revenue == [(DAY, 1500, None), (NEXT, 7, None)]
    assert adopted.runtime.run(made, FIRST).outcome is Outcome.ALREADY


def test_an_adopted_table_that_is_one_slice_is_copied(runtime: RuntimeSetup, tmp_path: Path) -> None:
    whole, shop = Whole(), Rebuilding(runtime, tmp_path, [])

    def declared(function: Any) -> Task:
        inputs = {"orders": read("shop.orders")}
        made = task("shop.revenue", scope=whole, inputs=inputs, write=replace_rows(), name="revenue")
        return runtime.declare(made(function))

    runtime.put(REVENUE, Rows((Column("order_date", "date"), Column("revenue", "bigint")), ((DAY, 1500),)))
    adopt(runtime.context, declared(summed), AdoptRequest("ana", "from the old job", "all"))
    assert shop.rebuild(declared(with_tax)).copied == 1
    assert runtime.revenue == [(DAY, 1500, None)]
    assert run_task(runtime.context, declared(with_tax), (whole.only,)).outcome is Outcome.ALREADY


def test_a_slice_that_others_may_have_written_over_is_not_copied_as_if_it_were_its_own(shop: Rebuilding) -> None:
    """Its doubt is in the commit of its token, which a copy moves on."""
    runtime, mine = shop.runtime, revenue_task()
    other = runtime.declare(replace(mine, name="other"))
    take_over(runtime.context, other, HumanDecision("ana", "ours now"))
    runtime.run(other, FIRST)
    take_over(runtime.context, runtime.declare(mine), HumanDecision("ana", "back again"))
    declared, before = shop.declare(with_tax, policy=PLAIN), runtime.revenue
    with pytest.raises(UsageError, match="2026-06-09 may hold rows of other slices or of another task"):
        shop.rebuild(declared, first=SECOND)
    assert runtime.revenue == before
    shop.rebuild(declared)
    assert runtime.revenue == [(DAY, 15, 30), (NEXT, 7, 14)]


POINTS = [Crash, RuntimeError, KeyboardInterrupt]


@pytest.mark.parametrize("how", POINTS)
def test_a_rebuild_that_copies_and_ends_anywhere_is_ended_by_the_next_call(
    adopted: Rebuilding, how: type[BaseException]
) -> None:
    """At the first point it passes, then at the second, and so on, each time on what the one before has left."""
    declared, old, new = (
        adopted.declare(with_tax, policy=PLAIN),
        [(DAY, 1500), (NEXT, 7)],
        [
            (DAY, 1500, None),
            (NEXT, 7, 14),
        ],
    )
    ends = 0
    while not ends_at(adopted, declared, ends, how):
        assert adopted.runtime.revenue in (old, new), ends
        adopted.runtime.clock.ahead += timedelta(hours=1)
        ends += 1
    assert ends > len(Point)
    assert adopted.runtime.revenue == new
    assert adopted.runtime.run(declared, FIRST).why.startswith("adopted")
    assert adopted.runtime.run(declared, SECOND).outcome is Outcome.ALREADY
    assert adopted.runtime.target.published(SIDE, ()).version is None
    assert not adopted.runtime.leftovers


def ends_at(shop: Rebuilding, declared: Task, passes: int, how: type[BaseException], **request: Any) -> bool:
    """Whether a rebuild came to its end before it had passed so many points; else it ended there."""
    left = [passes]

    def end(_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise how("here")

    try:
        with armed(end):
            shop.rebuild(declared, **request)
    except (Crash, KeyboardInterrupt, Exception):
        if left[0] >= 0:
            raise
        return False
    return left[0] >= 0
