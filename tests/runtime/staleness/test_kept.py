"""An incremental task reads no row twice, and what is appended stays: where a row that they read was published again,
nothing computes them anew. It must be said, until a person has looked."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup

from twice import Daily, Policy, Since, Whole, append_once, insert_new, merge, read, task
from twice import replace as replace_rows
from twice.core.project.project import assemble
from twice.core.scope import slice_named
from twice.core.since import SINCE
from twice.core.task import Task
from twice.errors import UsageError
from twice.runtime.run.chain import TaskEnd
from twice.runtime.run.run_many import run_all
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.kept import not_right
from twice.runtime.upkeep.accept import accept
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.runtime.upkeep.prune import prune

DAYS = (date(2026, 6, 8), date(2026, 6, 9), date(2026, 6, 10), date(2026, 6, 11))
FIRST, LATER, LAST = "2026-06-09", "2026-06-10", "2026-06-11"
AGAIN = "its input shop.copy was published again after it was read: copy[2026-06-09]"


def copy(write: Any = None, **policy: Any) -> Task:
    declare = task(
        "shop.copy",
        name="copy",
        scope=Daily("order_date", start="2026-01-01", lookback=1),
        write=write or replace_rows(),
        inputs={"rows": read("shop.orders", by="order_date")},
        policy=Policy(**policy),
    )
    return declare(lambda rows: rows)


def feed(write: Any = None, **policy: Any) -> Task:
    """Goes on by order_id."""
    declare = task(
        "shop.feed",
        name="feed",
        scope=Since("order_id", initial=0),
        write=write or merge("order_id", order="any"),
        inputs={"rows": read("shop.copy", by="order_id")},
        policy=Policy(**policy),
    )
    return declare(lambda rows: rows)


def log(by: str | None = "order_date", **policy: Any) -> Task:
    """Appends each day once."""
    declare = task(
        "shop.log",
        name="log",
        scope=Daily("order_date", start="2026-01-01"),
        write=append_once(),
        inputs={"rows": read("shop.copy", by=by)},
        policy=Policy(**policy),
    )
    return declare(lambda rows: rows)


def day_of_log(rows: Any, run: Any) -> Any:
    """Reads all of its input, and keeps its own day."""
    mine = date.fromisoformat(run.slice.label)
    return replace(rows, rows=tuple(row for row in rows.rows if row[1] == mine))


def chain(runtime: RuntimeSetup, day: str, *tasks: Task) -> dict[str, TaskEnd]:
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    ends = run_all(runtime.context, day, None)
    assert not [end.error or end.waits_for for end in ends if end.error or end.waits_for]
    return {end.task: end for end in ends}


def orders(runtime: RuntimeSetup, amount: int) -> None:
    """Of the second day the first order is corrected."""
    runtime.put_orders((1, DAYS[1], amount), (2, DAYS[1], 2), (3, DAYS[2], 3))


def told(runtime: RuntimeSetup, declared: Task) -> list[tuple[str, str, bool]]:
    """What `status` names of a task."""
    found = not_right(runtime.context.project, runtime.ledger, declared, runtime.context.code_of(declared))
    return [(each.slice.label, each.why, each.way_out is not None) for each in found]


@pytest.mark.parametrize(("child", "label"), [(feed(), "since"), (log(), FIRST)], ids=["feed", "log"])
def test_what_keeps_a_row_that_was_corrected_above_is_named_by_the_chain_and_by_status(
    runtime: RuntimeSetup, child: Task, label: str
) -> None:
    orders(runtime, 1)
    assert chain(runtime, FIRST, copy(), child)[child.name].stale == ()
    orders(runtime, 100)
    (left,) = chain(runtime, LATER, copy(), child)[child.name].stale
    assert (left.slice.label, left.why, left.way_out is not None) == (label, AGAIN, True)
    assert told(runtime, child) == [(label, AGAIN, True)]
    assert 1 in {row[2] for row in runtime.target.read(child.target).rows}, "it was reported, not computed"


@pytest.mark.parametrize("child", [feed(), log()], ids=["feed", "log"])
def test_it_stays_named_on_the_days_after(runtime: RuntimeSetup, child: Task) -> None:
    orders(runtime, 1)
    chain(runtime, FIRST, copy(), child)
    orders(runtime, 100)
    chain(runtime, LATER, copy(), child)
    runtime.put_orders((1, DAYS[1], 100), (2, DAYS[1], 2), (3, DAYS[2], 3), (4, DAYS[3], 4))
    ends = chain(runtime, LAST, copy(), child)
    assert [each.why for each in ends[child.name].stale] == [AGAIN]
    runtime.clock.ahead += timedelta(days=400)
    prune(runtime.context, None, timedelta(days=90))
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]


@pytest.mark.parametrize("child", [feed(), log()], ids=["feed", "log"])
def test_a_new_day_is_no_alarm_nor_one_that_was_only_made_again_before_it_was_read(
    runtime: RuntimeSetup, child: Task
) -> None:
    orders(runtime, 1)
    chain(runtime, FIRST, copy(), child)
    parent = copy()
    for amount in (3, 4):
        runtime.put_orders((1, DAYS[1], 1), (2, DAYS[1], 2), (3, DAYS[2], amount))
        run_task(runtime.context, parent, (parent.scope.slice_of(LATER),))  # type: ignore[union-attr]
    told_before = [label for label, _, _ in told(runtime, child)]
    assert told_before == []
    assert [each for end in chain(runtime, LATER, copy(), child).values() for each in end.stale] == []
    assert told(runtime, child) == []
    runtime.clock.ahead += timedelta(days=400)
    prune(runtime.context, None, timedelta(days=90))
    assert told(runtime, child) == []


@pytest.mark.parametrize("child", [feed(), log()], ids=["feed", "log"])
def test_the_same_rows_published_again_are_no_alarm(runtime: RuntimeSetup, child: Task) -> None:
    parent = copy(rerun="always")
    orders(runtime, 1)
    chain(runtime, FIRST, parent, child)
    ends = chain(runtime, LATER, parent, child)
    assert [len(result.slices) for result in ends["copy"].results] == [1, 1]
    assert runtime.ledger.runs_of("copy", [FIRST])[FIRST].generation == 2
    assert [each for end in ends.values() for each in end.stale] == []


def test_a_merge_that_only_added_rows_is_no_alarm_and_one_that_changed_some_is(runtime: RuntimeSetup) -> None:
    parent = copy(merge("order_id", order="any"))
    orders(runtime, 1)
    chain(runtime, FIRST, parent, feed())
    runtime.put_orders((1, DAYS[1], 1), (2, DAYS[1], 2), (3, DAYS[2], 3), (4, DAYS[1], 4))
    ends = chain(runtime, LATER, parent, feed())
    assert [each for end in ends.values() for each in end.stale] == []
    orders(runtime, 100)
    ends = chain(runtime, LATER, parent, feed())
    assert [each.why for each in ends["feed"].stale] == [AGAIN]


def test_a_changed_row_that_comes_with_a_newer_cursor_is_read_and_is_no_alarm(runtime: RuntimeSetup) -> None:
    parent = copy(merge("order_id", newest_by="amount"))
    below = task(
        "shop.feed",
        name="feed",
        scope=Since("amount", initial=0),
        write=merge("order_id", order="any"),
        inputs={"rows": read("shop.copy", by="amount")},
    )(lambda rows: rows)
    orders(runtime, 1)
    chain(runtime, FIRST, parent, below)
    orders(runtime, 100)
    ends = chain(runtime, LATER, parent, below)
    assert [each for end in ends.values() for each in end.stale] == []
    assert sorted(runtime.target.read(below.target).rows)[0][2] == 100


def test_what_only_appends_or_inserts_changes_no_row(runtime: RuntimeSetup) -> None:
    parent = copy(insert_new("order_id"), rerun="always")
    orders(runtime, 1)
    chain(runtime, FIRST, parent, feed())
    runtime.put_orders((1, DAYS[1], 100), (2, DAYS[1], 2), (3, DAYS[2], 3), (4, DAYS[1], 4))
    ends = chain(runtime, LATER, parent, feed())
    assert [each for end in ends.values() for each in end.stale] == []


def test_a_table_that_is_looked_up_whole_counts_where_rows_changed_not_where_days_came(runtime: RuntimeSetup) -> None:
    child = task(
        "shop.log",
        name="log",
        scope=Daily("order_date", start="2026-01-01"),
        write=append_once(),
        inputs={"rows": read("shop.copy")},
    )(day_of_log)
    orders(runtime, 1)
    chain(runtime, FIRST, copy(), child)
    assert chain(runtime, LATER, copy(), child)["log"].stale == ()
    orders(runtime, 100)
    ends = chain(runtime, LATER, copy(), child)  # it looks at its day again, whose rows are shown to be the same
    assert [(each.slice.label, each.why) for each in ends["log"].stale] == [(FIRST, AGAIN)]


@pytest.mark.parametrize("child", [feed(), log()], ids=["feed", "log"])
def test_what_a_person_has_accepted_is_not_named_again_until_the_next_change(
    runtime: RuntimeSetup, child: Task
) -> None:
    orders(runtime, 1)
    chain(runtime, FIRST, copy(), child)
    orders(runtime, 100)
    chain(runtime, LATER, copy(), child)
    before = runtime.target.published(child.target, ()).version
    found = accept(runtime.context, child, None, HumanDecision("ana", "put right by hand"))
    assert [each.slice.label for each in found] == [told_label(child)]
    assert told(runtime, child) == []
    assert runtime.target.published(child.target, ()).version == before, "no table was written"
    assert "accepted as it is by ana: put right by hand" in str(runtime.ledger.attempts(child.name)[0].why)
    assert accept(runtime.context, child, None, HumanDecision("ana", "again")) == ()
    chain(runtime, LATER, copy(), child)
    runtime.clock.ahead += timedelta(days=400)
    prune(runtime.context, None, timedelta(days=90))
    assert told(runtime, child) == []
    runtime.put_orders((1, DAYS[1], 7), (2, DAYS[1], 2), (3, DAYS[2], 3), (4, DAYS[3], 4))
    assert [each.why for each in chain(runtime, LATER, copy(), child)[child.name].stale] == [AGAIN]


def told_label(child: Task) -> str:
    return "since" if child.name == "feed" else FIRST


def test_a_mark_that_is_set_back_makes_it_right_and_silent(runtime: RuntimeSetup) -> None:
    child = feed()
    orders(runtime, 1)
    chain(runtime, FIRST, copy(), child)
    orders(runtime, 100)
    chain(runtime, LATER, copy(), child)
    reset_mark(runtime.context, child, Reset("0", "ana", "order 1 was corrected"))
    assert told(runtime, child) == []
    assert run_task(runtime.context, child, (SINCE,)).outcome.value == "published"
    assert told(runtime, child) == []
    assert sorted(row[2] for row in runtime.target.read(child.target).rows) == [2, 3, 100]
    orders(runtime, 101)
    run_task(runtime.context, copy(), (slice_named(copy().scope, FIRST),))
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]


@pytest.mark.parametrize(
    "child", [feed(allow=("rewritten_input",)), log(allow=("rewritten_input",))], ids=["feed", "log"]
)
def test_a_task_may_declare_that_it_keeps_what_it_read(runtime: RuntimeSetup, child: Task) -> None:
    orders(runtime, 1)
    chain(runtime, FIRST, copy(), child)
    orders(runtime, 100)
    assert chain(runtime, LATER, copy(), child)[child.name].stale == ()


def test_what_is_computed_again_by_itself_is_not_accepted(runtime: RuntimeSetup) -> None:
    orders(runtime, 1)
    chain(runtime, FIRST, copy())
    with pytest.raises(UsageError, match="copy: what is stale of this task is computed again") as refused:
        accept(runtime.context, copy(), None, HumanDecision("ana", "no"))
    assert "twice backfill copy --only stale" in str(refused.value.fix)


def test_a_whole_table_that_is_never_made_again_is_named_too(runtime: RuntimeSetup) -> None:
    child = task(
        "shop.total",
        name="total",
        scope=Whole(),
        write=replace_rows(),
        inputs={"rows": read("shop.copy")},
        policy=Policy(rerun="never"),
    )(lambda rows: rows)
    orders(runtime, 1)
    chain(runtime, FIRST, copy(), child)
    orders(runtime, 100)
    ends = chain(runtime, FIRST, copy(), child)
    assert [(each.slice.label, each.way_out is not None) for each in ends["total"].stale] == [("all", True)]
