"""What was changed after it was read is named whatever came in between, all of it, and nothing else; and a person's
word ends it, for what that person saw."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup, losing_the_reply
from tests.runtime.staleness.test_kept import AGAIN, DAYS, FIRST, LAST, LATER, chain, copy, feed, log, orders, told

from twice import Daily, Monthly, Since, merge, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Crash, Point, armed
from twice.core.project.project import assemble
from twice.core.results.run import Outcome, RunRequest, RunResult
from twice.core.scope import slice_named
from twice.core.since import SINCE
from twice.core.task import Task
from twice.errors import TwiceError
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.kept import not_right
from twice.runtime.staleness.stale import failed_labels, stale_slices
from twice.runtime.upkeep import accept as accepting
from twice.runtime.upkeep.accept import accept
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.runtime.upkeep.prune import prune
from twice.runtime.upkeep.rebuild_ledger import rebuild_ledger
from twice.runtime.upkeep.recover import recover
from twice.runtime.upkeep.takeover import take_over

ANA = HumanDecision("ana", "checked")
UNKNOWN = "there is no record of which version of its input shop.copy it read"


def use(runtime: RuntimeSetup, *tasks: Task) -> None:
    runtime.context = replace(runtime.context, project=assemble("p", tasks))


def run(runtime: RuntimeSetup, declared: Task, *days: str) -> list[RunResult]:
    """Each of these days; an incremental task goes on."""
    slices = [slice_named(declared.scope, day) for day in days] or [SINCE]
    return [run_task(runtime.context, declared, (each,), RunRequest()) for each in slices]


def one_a_day(runtime: RuntimeSetup, *amounts: int) -> None:
    """One order a day."""
    runtime.put_orders(*((at + 1, DAYS[1] + timedelta(days=at), amount) for at, amount in enumerate(amounts)))


def amounts(runtime: RuntimeSetup, declared: Task) -> list[int]:
    """By order."""
    return [amount for _, _, amount in sorted(runtime.target.read(declared.target).rows)]


def once_at(point: Point, act: Callable[[], Any]) -> AbstractContextManager[None]:
    turns = iter([act])
    return armed(lambda passed: next(turns, lambda: None)() if passed is point else None)


def dying(point: Point) -> AbstractContextManager[None]:
    def die(passed: Point) -> None:
        if passed is point:
            raise Crash(passed)

    return armed(die)  # type: ignore[arg-type]


# --- a parent whose publish the ledger learns late ---


@pytest.mark.parametrize("how", ["killed", "not recorded"])
def test_a_rewrite_that_the_ledger_learns_of_late_is_named_although_its_reader_went_on_meanwhile(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    parent, child = copy(), feed()
    use(runtime, parent, child)
    one_a_day(runtime, 1, 2)
    run(runtime, parent, FIRST, LATER)
    run(runtime, child)
    one_a_day(runtime, 100, 2, 3)
    if how == "killed":
        with pytest.raises(Crash), dying(Point.AFTER_COMMIT):
            run(runtime, parent, FIRST)
    else:
        with pytest.raises(TwiceError), losing_the_reply(runtime, monkeypatch):
            run(runtime, parent, FIRST)
        monkeypatch.undo()
    run(runtime, parent, LAST)
    run(runtime, child)
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]
    runtime.clock.ahead += timedelta(hours=2)
    recover(runtime.context, None)
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]


def test_what_a_person_accepts_includes_no_rewrite_that_the_ledger_learns_of_later(runtime: RuntimeSetup) -> None:
    parent, child = copy(), log()
    use(runtime, parent, child)
    one_a_day(runtime, 1, 2)
    for day in (FIRST, LATER):
        run(runtime, parent, day)
        run(runtime, child, day)
    one_a_day(runtime, 1, 200)
    run(runtime, parent, LATER)
    one_a_day(runtime, 100, 200)
    with pytest.raises(Crash), dying(Point.AFTER_COMMIT):
        run(runtime, parent, FIRST)
    one_a_day(runtime, 100, 200, 3)
    run(runtime, parent, LAST)
    found = accept(runtime.context, child, None, ANA)
    assert [each.slice.label for each in found] == [FIRST, LATER], "it was settled first, and shown"
    assert told(runtime, child) == []


# --- a first publish over rows of others ---


def test_a_parent_that_is_cut_otherwise_and_rewrites_rows_is_named(runtime: RuntimeSetup) -> None:
    parent, child = copy(), feed()
    use(runtime, parent, child)
    orders(runtime, 1)
    run(runtime, parent, FIRST, LATER)
    run(runtime, child)
    by_month = Monthly("order_date", start="2026-01-01", slice_column="order_date")
    months = replace(parent, scope=by_month)
    use(runtime, months, child)
    orders(runtime, 100)
    run(runtime, months, "2026-06")
    run(runtime, child)
    again = "its input shop.copy was published again after it was read: copy[2026-06]"
    assert [why for _, why, _ in told(runtime, child)] == [again]
    runtime.put_orders((1, DAYS[1], 100), (9, DAYS[1].replace(month=7), 9))
    accept(runtime.context, child, None, ANA)
    run(runtime, months, "2026-07")
    run(runtime, child)
    assert told(runtime, child) == [], "there were no rows of July"


def test_a_parent_that_took_the_table_over_and_rewrites_rows_is_named(runtime: RuntimeSetup) -> None:
    parent, child = copy(), feed()
    use(runtime, parent, child)
    orders(runtime, 1)
    run(runtime, parent, FIRST, LATER)
    run(runtime, child)
    other = replace(copy(), name="copy2")
    use(runtime, other, child)
    take_over(runtime.context, other, HumanDecision("ana", "new owner"))
    orders(runtime, 100)
    run(runtime, other, FIRST)
    run(runtime, child)
    again = "its input shop.copy was published again after it was read: copy2[2026-06-09]"
    assert [why for _, why, _ in told(runtime, child)] == [again]
    accept(runtime.context, child, None, ANA)
    one_a_day(runtime, 100, 3, 4)
    run(runtime, other, LAST)
    run(runtime, child)
    assert told(runtime, child) == [], "a new day is none"


def test_what_a_task_changed_that_lost_the_table_later_stays_named_as_its_own(runtime: RuntimeSetup) -> None:
    parent, child = corrected_twice(runtime)
    one_a_day(runtime, 100, 200, 3, 4)
    run(runtime, parent, "2026-06-12")
    run(runtime, child)
    before = told(runtime, child)
    other = replace(copy(), name="another_copy")
    use(runtime, other, child)
    take_over(runtime.context, other, HumanDecision("ana", "new owner"))
    assert before and told(runtime, child) == before


def test_the_first_publish_of_a_merged_day_counts_where_it_changed_a_row_of_another_day(runtime: RuntimeSetup) -> None:
    parent, child = copy(merge("order_id", order="any")), feed()
    use(runtime, parent, child)
    runtime.put_orders((1, DAYS[1], 1), (2, DAYS[1], 2))
    run(runtime, parent, FIRST)
    run(runtime, child)
    runtime.put_orders((1, DAYS[2], 100), (2, DAYS[1], 2))
    run(runtime, parent, LATER)
    run(runtime, child)
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN.replace(FIRST, LATER)]


# --- a mark that is set back ---


def corrected_twice(runtime: RuntimeSetup) -> tuple[Task, Task]:
    """The orders of the first two days were corrected after they were read."""
    parent, child = copy(), feed()
    use(runtime, parent, child)
    one_a_day(runtime, 1, 2, 3)
    run(runtime, parent, FIRST, LATER, LAST)
    run(runtime, child)
    one_a_day(runtime, 100, 200, 3)
    run(runtime, parent, FIRST, LATER)
    return parent, child


def test_all_that_was_changed_is_named_and_the_way_out_begins_before_the_earliest(runtime: RuntimeSetup) -> None:
    parent, child = corrected_twice(runtime)
    for day in range(12, 14):
        (found,) = not_right(runtime.context.project, runtime.ledger, child)
        assert found.why == (
            "its input shop.copy was published again after it was read: copy[2026-06-09] to copy[2026-06-10] (2 slices)"
        )
        assert found.way_out == (
            "twice mark reset feed --to MARK --reason REASON, with a MARK before the first row of copy[2026-06-09], "
            "and run it; once it is right: twice accept feed --reason REASON"
        )
        one_a_day(runtime, 100, 200, 3, *range(4, day - 7))
        run(runtime, parent, f"2026-06-{day}")
        assert run(runtime, child)[0].outcome is Outcome.PUBLISHED


def test_a_mark_that_is_not_set_back_far_enough_silences_nothing(runtime: RuntimeSetup) -> None:
    _, child = corrected_twice(runtime)
    reset_mark(runtime.context, child, Reset("2", "ana", "only the second day"))
    assert told(runtime, child), "it was not read again by the reset"
    run(runtime, child)
    assert amounts(runtime, child) == [1, 200, 3]
    assert told(runtime, child)
    accept(runtime.context, child, None, ANA)
    assert told(runtime, child) == []


def test_a_mark_that_is_set_back_to_the_beginning_makes_all_of_it_right_and_silent(runtime: RuntimeSetup) -> None:
    _, child = corrected_twice(runtime)
    reset_mark(runtime.context, child, Reset(None, "ana", "all of it"))
    assert told(runtime, child) == []
    run(runtime, child)
    assert amounts(runtime, child) == [100, 200, 3]
    assert told(runtime, child) == []


def test_a_reset_that_the_ledger_learns_of_late_is_no_reading_either(runtime: RuntimeSetup) -> None:
    _, child = corrected_twice(runtime)
    with pytest.raises(Crash), dying(Point.AFTER_COMMIT):
        reset_mark(runtime.context, child, Reset("2", "ana", "only the second day"))
    runtime.clock.ahead += timedelta(hours=2)
    recover(runtime.context, None)
    run(runtime, child)
    assert amounts(runtime, child) == [1, 200, 3]
    assert told(runtime, child)


def test_a_slice_that_lies_beyond_the_mark_is_read_and_one_before_it_is_named(runtime: RuntimeSetup) -> None:
    """Where the cursor is what the slices above are cut by, that can be seen."""
    parent = copy()
    child = task(
        "shop.feed",
        name="feed",
        scope=Since("order_date", initial="2026-01-01"),
        write=merge("order_id", order="any"),
        inputs={"rows": read("shop.copy", by="order_date")},
    )(lambda rows: rows)
    use(runtime, parent, child)
    one_a_day(runtime, 1, 2, 3)
    run(runtime, parent, FIRST, LATER, LAST)
    run(runtime, child)
    one_a_day(runtime, 100, 200, 300)
    run(runtime, parent, FIRST, LATER, LAST)
    reset_mark(runtime.context, child, Reset(FIRST, "ana", "from the second day on"))
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]
    reset_mark(runtime.context, child, Reset("2026-06-08", "ana", "from the first"))
    assert told(runtime, child) == []
    run(runtime, child)
    assert amounts(runtime, child) == [100, 200, 300]
    assert told(runtime, child) == []


def test_a_rewrite_that_lands_after_the_reset_is_named_although_its_run_began_before(runtime: RuntimeSetup) -> None:
    parent, child = copy(), feed()
    use(runtime, parent, child)
    one_a_day(runtime, 1, 2, 3)
    run(runtime, parent, FIRST, LATER, LAST)
    run(runtime, child)
    one_a_day(runtime, 100, 2, 3)
    with once_at(Point.AFTER_AUDIT, lambda: reset_mark(runtime.context, child, Reset("2", "ana", "the last ones"))):
        run(runtime, parent, FIRST)
    run(runtime, child)
    assert amounts(runtime, child)[0] == 1
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]


def test_every_input_that_was_published_again_is_named(runtime: RuntimeSetup) -> None:
    parent = copy()
    other = replace(copy(), name="other", target=replace(parent.target, name="shop.other"))
    child = task(
        "shop.feed",
        name="feed",
        scope=Since("order_id", initial=0),
        write=merge("order_id", order="any"),
        inputs={"rows": read("shop.copy", by="order_id"), "more": read("shop.other")},
    )(lambda rows, more: rows)
    use(runtime, parent, other, child)
    one_a_day(runtime, 1, 2, 3)
    for above in (parent, other):
        run(runtime, above, FIRST, LATER)
    run(runtime, child)
    one_a_day(runtime, 100, 2, 3)
    for above in (parent, other):
        run(runtime, above, FIRST)
    reset_mark(runtime.context, child, Reset("2", "ana", "too far"))
    run(runtime, child)
    ((_, why, _),) = told(runtime, child)
    assert why == f"{AGAIN}, and {AGAIN.replace('copy', 'other')}"


# --- a ledger that was rebuilt ---


@pytest.mark.parametrize("child", [log(), feed()], ids=["log", "feed"])
def test_what_a_rebuilt_ledger_does_not_know_is_said_so_and_ends_with_a_persons_decision(
    runtime: RuntimeSetup, child: Task, tmp_path: Path
) -> None:
    parent = copy()
    use(runtime, parent, child)
    orders(runtime, 1)
    chain(runtime, FIRST, parent, child)
    orders(runtime, 100)
    chain(runtime, LATER, parent, child)
    lost = Ledger.open(f"sqlite:///{tmp_path}/new.db", runtime.clock)
    runtime.context = replace(runtime.context, ledger=lost)
    rebuild_ledger(runtime.context, None)
    assert {why for _, why, _ in told(runtime, child)} == {UNKNOWN}
    assert {each.why for each in accept(runtime.context, child, None, ANA)} == {UNKNOWN}
    assert told(runtime, child) == []
    runtime.clock.ahead += timedelta(days=400)
    prune(runtime.context, None, timedelta(days=90))
    assert told(runtime, child) == [], "a person's decision is kept"
    orders(runtime, 7)
    run(runtime, parent, FIRST)
    assert told(runtime, child), "and it holds for what was there then"


def test_what_a_rebuilt_ledger_does_not_know_stays_unknown_when_an_incremental_task_goes_on(
    runtime: RuntimeSetup, tmp_path: Path
) -> None:
    parent, child = corrected_twice(runtime)
    runtime.context = replace(runtime.context, ledger=Ledger.open(f"sqlite:///{tmp_path}/new.db", runtime.clock))
    rebuild_ledger(runtime.context, None)
    one_a_day(runtime, 100, 200, 3)
    runtime.put_orders((1, DAYS[1], 100), (2, DAYS[2], 200), (3, DAYS[3], 3), (4, DAYS[3], 4))
    run(runtime, parent, LAST)
    run(runtime, child)
    assert told(runtime, child)[0][1] == UNKNOWN


# --- what is accepted, and what is not ---


def test_accept_does_not_hide_that_the_last_run_failed(runtime: RuntimeSetup) -> None:
    parent, child = copy(), feed()
    use(runtime, parent, child)
    orders(runtime, 1)
    run(runtime, parent, FIRST)
    run(runtime, child)
    orders(runtime, 100)
    run(runtime, parent, FIRST, LATER)

    def fails() -> None:
        raise ValueError("boom")

    with once_at(Point.AFTER_STAGE, fails), pytest.raises(TwiceError):
        run(runtime, child)
    accept(runtime.context, child, None, ANA)
    assert failed_labels(runtime.ledger, "feed") == ("since",)
    assert told(runtime, child) == []


def test_accept_accepts_only_what_it_names(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child = copy(), log()
    use(runtime, parent, child)
    one_a_day(runtime, 1, 2)
    for day in (FIRST, LATER):
        run(runtime, parent, day)
        run(runtime, child, day)
    one_a_day(runtime, 100, 2)
    run(runtime, parent, FIRST)
    kept = accepting.kept_slices  # type: ignore[attr-defined]

    def slowly(*given: Any) -> Any:
        found = kept(*given)
        one_a_day(runtime, 999, 2)
        run(runtime, parent, FIRST)
        return found

    monkeypatch.setattr(accepting, "kept_slices", slowly)
    accept(runtime.context, child, None, ANA)
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN], "999 was never looked at"


def test_a_word_about_one_publish_does_not_hold_for_the_next(runtime: RuntimeSetup) -> None:
    """The mark comes back to where it was accepted."""
    parent, child = corrected_twice(runtime)
    accept(runtime.context, child, None, ANA)
    one_a_day(runtime, 7, 200, 3)
    run(runtime, parent, FIRST)
    reset_mark(runtime.context, child, Reset("2", "ana", "too far"))
    run(runtime, child)
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]


@pytest.mark.parametrize("child", [log(), replace(copy(), name="report")], ids=["kept", "computed again"])
def test_what_was_read_is_not_named_although_its_reader_claimed_first(runtime: RuntimeSetup, child: Task) -> None:
    parent = copy()
    if child.name == "report":
        child = task(
            "shop.report",
            name="report",
            scope=Daily("order_date", start="2026-01-01"),
            write=replace_rows(),
            inputs={"rows": read("shop.copy", by="order_date")},
        )(lambda rows: rows)
    use(runtime, parent, child)
    orders(runtime, 1)
    run(runtime, parent, FIRST)
    orders(runtime, 100)
    with once_at(Point.AFTER_CLAIM, lambda: run(runtime, parent, FIRST)):
        run(runtime, child, FIRST)
    assert 100 in amounts(runtime, child)
    assert told(runtime, child) == []
    assert stale_slices(runtime.context.project, runtime.ledger, child) == ()


def test_a_table_that_was_made_again_counts_by_the_order_of_the_attempts(runtime: RuntimeSetup) -> None:
    parent, child = copy(), log()
    use(runtime, parent, child)
    one_a_day(runtime, 1, 2)
    run(runtime, parent, FIRST, LATER)
    run(runtime, child, FIRST)
    runtime.target._tables.pop("shop.copy")
    one_a_day(runtime, 100, 2)
    run(runtime, parent, FIRST)
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]


def test_an_update_that_stays_behind_the_mark_is_named_although_it_is_newer_than_what_it_replaced(
    runtime: RuntimeSetup,
) -> None:
    parent = copy(merge("order_id", newest_by="amount"))
    child = task(
        "shop.feed",
        name="feed",
        scope=Since("amount", initial=0),
        write=merge("order_id", newest_by="amount"),
        inputs={"rows": read("shop.copy", by="amount")},
    )(lambda rows: rows)
    use(runtime, parent, child)
    one_a_day(runtime, 1, 10)
    run(runtime, parent, FIRST, LATER)
    run(runtime, child)
    one_a_day(runtime, 5, 10)
    run(runtime, parent, FIRST)
    run(runtime, child)
    assert [why for _, why, _ in told(runtime, child)] == [AGAIN]
    accept(runtime.context, child, None, ANA)
    one_a_day(runtime, 11, 10)
    run(runtime, parent, FIRST)
    assert told(runtime, child) == [], "the next run reads it"
    run(runtime, child)
    assert (told(runtime, child), amounts(runtime, child)) == ([], [11, 10])
