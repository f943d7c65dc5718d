"""Under a redeclared scope rows without a key, which are identified by their slice alone, are not appended again; and
what slices that were cut differently may have written over is computed again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

import pytest
from tests.runtime.conftest import COLUMNS as ORDER_COLUMNS
from tests.runtime.conftest import DAY, REVENUE, RuntimeSetup
from tests.runtime.starting import start

from twice import Daily, Every, Hourly, Monthly, Since, Whole, append_once, insert_new, merge, read, task
from twice import replace as replace_rows
from twice.core.backfill.plan import BackfillRequest
from twice.core.ports import Column, Held
from twice.core.results.run import Outcome, RunRequest
from twice.core.scope import Scope, slice_named
from twice.core.table.token import CommitNote
from twice.core.task import Policy, Rerun, Strategy, TableName, Task
from twice.errors import TableTaken
from twice.runtime.backfill.worker import Event, Stop, work
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.decide import RECUT, TAKEN_BACK
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.table.cut import refusal_of_cut
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.runtime.upkeep.takeover import take_over
from twice.targets.memory.rows import Rows

EVENTS = TableName("shop.events")
COLUMNS = (Column("event_id", "bigint"), Column("day", "date"), Column("at", "timestamp"))
AT = datetime(2026, 6, 9, 1, 15, tzinfo=timezone.utc)
DAILY = Daily("day", start="2026-06-01")
ZONED = Daily("at", start="2026-06-01", zone="Europe/Berlin")
HALF = Every("at", start="2026-06-01T00:00", minutes=30)
QUARTER = Every("at", start="2026-06-01T00:00", minutes=15)
BY_DAY: Scope = Daily("order_date", start="2026-01-01")
BY_MONTH: Scope = Monthly("order_date", start="2026-01", slice_column="order_date")
KEYED = [replace_rows(), merge("order_id", order="any")]


def feed(scope: Scope, write: Strategy | None = None, name: str = "feed") -> Task:
    by = scope.cursor if isinstance(scope, Since) else getattr(scope, "column", None)
    inputs = {"events": read("shop.events", by=by) if by else read("shop.events")}
    return task("shop.revenue", scope=scope, inputs=inputs, write=write or append_once(), name=name)(_same)


def _same(events: Rows) -> Rows:
    return events


def run(runtime: RuntimeSetup, declared: Task, label: str | None) -> Outcome:
    runtime.declare(declared)
    return run_task(runtime.context, declared, (slice_named(declared.scope, label),)).outcome


@pytest.fixture
def stocked(runtime: RuntimeSetup) -> RuntimeSetup:
    runtime.put(EVENTS, Rows(COLUMNS, ((1, date(2026, 6, 9), AT),)))
    return runtime


@pytest.mark.parametrize(
    ("scope", "label"),
    [
        (Monthly("day", start="2026-06"), "2026-06"),
        (Hourly("at", start="2026-06-01T00"), "2026-06-09T01"),
        (HALF, "2026-06-09T01:00"),
        (Whole(), None),
        (Since("event_id", initial=0), None),
    ],
    ids=lambda each: type(each).__name__,
)
def test_slices_of_another_grain_are_not_appended_beside_the_days_that_are_there(
    stocked: RuntimeSetup, scope: Scope, label: str | None
) -> None:
    run(stocked, feed(DAILY), "2026-06-09")
    with pytest.raises(TableTaken) as refused:
        run(stocked, feed(scope), label)
    assert "shop.revenue holds slices of another scope, such as 2026-06-09: append_once() would add" in str(
        refused.value
    )
    assert len(stocked.revenue) == 1
    assert run(stocked, feed(DAILY), "2026-06-09") is Outcome.ALREADY


@pytest.mark.parametrize(
    ("before", "first", "after", "second"),
    [
        (HALF, "2026-06-09T01:00", QUARTER, "2026-06-09T01:15"),
        (QUARTER, "2026-06-09T01:15", HALF, "2026-06-09T01:00"),
        (DAILY, "2026-06-09", ZONED, "2026-06-08"),
        (ZONED, "2026-06-09", Daily("at", start="2026-06-01", zone="Pacific/Auckland"), "2026-06-10"),
    ],
)
def test_slices_whose_labels_look_alike_are_not_appended_under_another_cut(
    stocked: RuntimeSetup, before: Scope, first: str, after: Scope, second: str
) -> None:
    run(stocked, feed(before), first)
    with pytest.raises(TableTaken, match="rows would be appended a second time"):
        run(stocked, feed(after), second)
    assert len(stocked.revenue) == 1


def test_a_table_that_an_earlier_version_made_remembers_the_cut_of_its_rows_without_a_token(
    stocked: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(CommitNote, "tokens", property(lambda note: dict(note.generations)))
        run(stocked, feed(HALF), "2026-06-09T01:00")
    with pytest.raises(TableTaken, match="rows would be appended a second time"):
        run(stocked, feed(QUARTER), "2026-06-09T01:15")
    assert len(stocked.revenue) == 1


def test_plan_and_a_takeover_by_another_name_are_the_way_on(stocked: RuntimeSetup) -> None:
    run(stocked, feed(HALF), "2026-06-09T01:00")
    later = stocked.declare(feed(DAILY))
    with pytest.raises(TableTaken):
        explain(stocked.context, later, slice_named(DAILY, "2026-06-10"))
    renamed = stocked.declare(feed(Every("at", start="2026-06-10T00:00", minutes=15), name="quarters"))
    take_over(stocked.context, renamed, HumanDecision("ana", "quarters of an hour from the 10th on"))
    assert run(stocked, renamed, "2026-06-10T00:15") is Outcome.PUBLISHED


def test_rows_with_a_key_may_be_cut_otherwise_at_any_time(stocked: RuntimeSetup) -> None:
    run(stocked, feed(DAILY, insert_new("event_id")), "2026-06-09")
    assert run(stocked, feed(Whole(), insert_new("event_id")), None) is Outcome.PUBLISHED
    assert len(stocked.revenue) == 1


def test_another_start_and_another_name_of_the_column_are_the_same_cut(stocked: RuntimeSetup) -> None:
    run(stocked, feed(HALF), "2026-06-09T01:00")
    assert (
        run(stocked, feed(Every("at", start="2026-06-05T00:00", minutes=30)), "2026-06-09T01:30") is Outcome.PUBLISHED
    )


@pytest.fixture
def made_by_hand(stocked: RuntimeSetup) -> RuntimeSetup:
    stocked.put(REVENUE, Rows(COLUMNS))  # CREATE TABLE …: what twice did not make is used as it is
    return stocked


def test_in_a_table_made_by_hand_other_minutes_do_not_append_a_row_a_second_time(made_by_hand: RuntimeSetup) -> None:
    run(made_by_hand, feed(HALF), "2026-06-09T01:00")  # 01:00 to 01:30: the row of 01:15 is in
    with pytest.raises(TableTaken) as refused:
        run(made_by_hand, feed(QUARTER), "2026-06-09T01:15")
    assert str(refused.value).startswith(
        "feed[2026-06-09T01:15]: shop.revenue has one slice per window of 30 minutes, and this scope one per window of "
        "15 minutes: rows would be appended a second time. The table is unchanged. Use the scope it was published with."
    )
    assert len(made_by_hand.revenue) == 1


def test_in_a_table_made_by_hand_windows_that_became_longer_do_not_leave_rows_out(made_by_hand: RuntimeSetup) -> None:
    run(made_by_hand, feed(QUARTER), "2026-06-09T01:00")  # 01:00 to 01:15: the row of 01:15 is not in
    with pytest.raises(TableTaken):
        run(made_by_hand, feed(HALF), "2026-06-09T01:00")
    assert run(made_by_hand, feed(QUARTER), "2026-06-09T01:15") is Outcome.PUBLISHED


def test_a_slice_of_other_minutes_is_not_the_one_that_was_published(stocked: RuntimeSetup) -> None:
    """rerun="never": what was published stays. 01:00 to 01:30 was not, 01:00 to 01:15 was."""
    for scope in (QUARTER, HALF):
        declared = stocked.declare(
            task(
                "shop.revenue",
                scope=scope,
                inputs={"events": read("shop.events", by="at")},
                write=insert_new("event_id"),
                policy=Policy(rerun="never"),
                name="copy",
            )(_same)
        )
        stocked.code[0] = repr(scope)
        first = run_task(stocked.context, declared, (slice_named(scope, "2026-06-09T01:00"),))
        again = run_task(stocked.context, declared, (slice_named(scope, "2026-06-09T01:00"),))
        assert (first.outcome, again.outcome) == (Outcome.PUBLISHED, Outcome.ALREADY)
    assert len(stocked.revenue) == 1


def test_windows_that_became_shorter_do_not_take_rows_of_others_away_with_their_own(stocked: RuntimeSetup) -> None:
    """In a column that twice computes, 01:00 stands for half an hour: a quarter would delete the rest of it."""
    held = (*COLUMNS, Column("window_start", "timestamp"))
    rows = Rows(held, ((1, date(2026, 6, 9), AT, AT.replace(minute=0)),))

    def windowed(scope: Scope) -> Task:
        inputs = {"events": read("shop.events", by="at")}
        return task("shop.revenue", scope=scope, inputs=inputs, write=replace_rows(), name="feed")(lambda events: rows)

    run(stocked, windowed(HALF), "2026-06-09T01:00")
    stocked.target._tables["shop.revenue"].mark = None  # as in a table that was made by hand
    with pytest.raises(
        TableTaken, match="holds in window_start one value per window of 30 minutes, and this scope one"
    ):
        run(stocked, windowed(QUARTER), "2026-06-09T01:00")
    assert len(stocked.revenue) == 1


def test_a_table_of_another_cut_is_named_with_its_own_column() -> None:
    """The column of the new scope is not in the table."""
    every = Every("started_at", start="2026-01-01T00:00", minutes=720)
    declared = task("shop.rides", scope=every, inputs={}, write=replace_rows(), name="rides")(lambda: None)
    refused = refusal_of_cut(declared, frozenset(), {"hour": 1})
    assert refused is not None
    assert refused.what == (
        "shop.rides holds in started_hour one value per hour, and this scope one per window of 720 minutes"
    )


def version(
    runtime: RuntimeSetup,
    number: int,
    scope: Scope,
    write: Strategy,
    factor: int = 1,
    rerun: Rerun = "when_changed",
    **named: Any,
) -> Task:
    """One deployment. Its code hash is its own, as it is for real: other scope, other function."""
    runtime.code[0] = f"v{number}"

    def times(orders: Rows) -> Rows:
        return Rows(ORDER_COLUMNS, tuple((id_, day, amount * factor) for id_, day, amount in orders.rows))

    inputs = {"orders": read("shop.orders", by=scope.cursor if isinstance(scope, Since) else "order_date")}
    named = {"name": "revenue", "policy": Policy(rerun=rerun), **named}
    return runtime.declare(task("shop.revenue", scope=scope, inputs=inputs, write=write, **named)(times))


@pytest.mark.parametrize("write", KEYED, ids=lambda write: write.name)
def test_after_a_rollback_the_days_that_months_lie_over_are_computed_again(
    runtime: RuntimeSetup, write: Strategy
) -> None:
    day = slice_named(BY_DAY, "2026-06-09")
    run_task(runtime.context, version(runtime, 1, BY_DAY, write), (day,))
    right = runtime.revenue
    bad = version(runtime, 2, BY_MONTH, write, factor=1000)  # by month, and wrong
    run_task(runtime.context, bad, (slice_named(BY_MONTH, "2026-06"),))
    assert runtime.revenue != right
    good = version(runtime, 1, BY_DAY, write)  # rolled back
    (status,) = slice_statuses(runtime.context, good, (day,), None)
    planned = explain(runtime.context, good, day)
    ended = run_task(runtime.context, good, (day,))
    assert (status.status, status.why, planned.compute, planned.why) == ("stale", RECUT, True, RECUT)
    assert (ended.outcome, ended.why) == (Outcome.PUBLISHED, RECUT)
    assert [row for row in runtime.revenue if row[1] == DAY] == right
    assert run_task(runtime.context, good, (day,)).outcome is Outcome.ALREADY
    assert slice_statuses(runtime.context, good, (day,), None)[0].status == "published"


@pytest.mark.parametrize("write", KEYED, ids=lambda write: write.name)
def test_the_other_days_are_computed_again_too_once_one_of_them_is_right(
    runtime: RuntimeSetup, write: Strategy
) -> None:
    days = [slice_named(BY_DAY, label) for label in ("2026-06-09", "2026-06-10")]
    for day in days:
        run_task(runtime.context, version(runtime, 1, BY_DAY, write), (day,))
    right = runtime.revenue
    run_task(runtime.context, version(runtime, 2, BY_MONTH, write, factor=1000), (slice_named(BY_MONTH, "2026-06"),))
    good = version(runtime, 1, BY_DAY, write)
    for day in days:
        assert run_task(runtime.context, good, (day,)).why == RECUT
    assert runtime.revenue == right
    assert [run_task(runtime.context, good, (day,)).outcome for day in days] == [Outcome.ALREADY] * 2


@pytest.mark.parametrize("restate", [False, True], ids=["run", "restate"])
@pytest.mark.parametrize("write", KEYED, ids=lambda write: write.name)
def test_a_backfill_that_is_resumed_after_a_rollback_computes_what_months_lie_over(
    runtime: RuntimeSetup, write: Strategy, restate: bool
) -> None:
    day, month = slice_named(BY_DAY, "2026-06-09"), slice_named(BY_MONTH, "2026-06")
    run_task(runtime.context, version(runtime, 1, BY_DAY, write), (day,))
    right = runtime.revenue
    run_task(runtime.context, version(runtime, 2, BY_MONTH, write, factor=1000), (month,))
    good = version(runtime, 1, BY_DAY, write)  # rolled back: the day is stale, and a backfill is planned for it
    asked = BackfillRequest("revenue", "2026-06-09", "2026-06-09", ("stale",), batch="off", restate=restate)
    record, _ = start(runtime.context, asked)
    run_task(runtime.context, good, (day,))  # the nightly run comes first
    run_task(runtime.context, version(runtime, 2, BY_MONTH, write, factor=1000), (month,), RunRequest("restate"))
    version(runtime, 1, BY_DAY, write)  # rolled back once more; now the backfill is resumed
    work(runtime.context, record.name, lambda event: None, Stop.never())
    assert [row for row in runtime.revenue if row[1] == DAY] == right


def test_restating_a_day_that_a_month_lies_over_is_not_called_identical_with_what_the_day_once_was(
    runtime: RuntimeSetup,
) -> None:
    day, write = slice_named(BY_DAY, "2026-06-09"), replace_rows()
    run_task(runtime.context, version(runtime, 1, BY_DAY, write), (day,))
    right = runtime.revenue
    run_task(runtime.context, version(runtime, 2, BY_MONTH, write, factor=1000), (slice_named(BY_MONTH, "2026-06"),))
    good = version(runtime, 1, BY_DAY, write)  # rolled back
    ended = run_task(runtime.context, good, (day,), RunRequest("restate"))
    assert [row for row in runtime.revenue if row[1] == DAY] == right
    assert (ended.outcome, ended.slices[0].changed) == (Outcome.PUBLISHED, None)
    assert ended.notes == ("there is no record of what 2026-06-09 held: it cannot be compared",)
    again = run_task(runtime.context, good, (day,), RunRequest("restate"))
    assert (again.outcome, again.slices[0].changed, again.notes) == (Outcome.IDENTICAL, False, ())


def test_a_backfill_that_restates_days_that_a_month_lies_over_compares_none_of_them(runtime: RuntimeSetup) -> None:
    write = replace_rows()
    for label in ("2026-06-09", "2026-06-10"):
        run_task(runtime.context, version(runtime, 1, BY_DAY, write), (slice_named(BY_DAY, label),))
    run_task(runtime.context, version(runtime, 2, BY_MONTH, write, factor=1000), (slice_named(BY_MONTH, "2026-06"),))
    version(runtime, 1, BY_DAY, write)  # rolled back
    asked = BackfillRequest("revenue", "2026-06-09", "2026-06-10", ("stale",), restate=True)
    record, _ = start(runtime.context, asked)
    events: list[Event] = []
    work(runtime.context, record.name, events.append, Stop.never())
    ends = {end.label: end.comparison for event in events for end in event.ends}
    assert ends == {"2026-06-09": None, "2026-06-10": None}


def test_a_takeover_and_the_way_back_do_not_make_a_day_believed_that_months_lie_over(runtime: RuntimeSetup) -> None:
    """A takeover moves the tokens of all days in a commit of its own, and writes no row."""

    def daily(name: str = "revenue") -> Task:
        return version(runtime, 1, BY_DAY, replace_rows(), rerun="never", name=name)

    first, second = (slice_named(BY_DAY, label) for label in ("2026-06-09", "2026-06-10"))
    for day in (first, second):
        run_task(runtime.context, daily(), (day,))
    right = runtime.revenue
    monthly = version(runtime, 2, BY_MONTH, replace_rows(), factor=1000, rerun="never")
    run_task(runtime.context, monthly, (slice_named(BY_MONTH, "2026-06"),))
    run_task(runtime.context, daily(), (first,))  # rolled back: one day is right again
    for name in ("other", "revenue"):
        take_over(runtime.context, daily(name), HumanDecision("ana", "and back"))
    declared = daily()
    assert [explain(runtime.context, declared, day).compute for day in (first, second)] == [True, True]
    assert [run_task(runtime.context, declared, (day,)).why for day in (first, second)] == [TAKEN_BACK] * 2
    assert runtime.revenue == right
    assert run_task(runtime.context, declared, (second,)).outcome is Outcome.ALREADY


def test_an_incremental_task_says_what_days_may_lie_over_until_its_mark_is_reset(runtime: RuntimeSetup) -> None:
    write, since = merge("order_id", order="any"), Since("order_id", initial=0)
    note = (
        "slices that were cut differently may have overwritten rows up to the mark, and these are not read again "
        "by themselves: twice mark reset revenue --to … reads them again"
    )
    run_task(runtime.context, version(runtime, 1, since, write), (since.only,))
    right = runtime.revenue
    run_task(runtime.context, version(runtime, 2, BY_DAY, write, factor=1000), (slice_named(BY_DAY, "2026-06-09"),))
    rolled_back = version(runtime, 1, since, write)
    for _ in range(2):
        ended = run_task(runtime.context, rolled_back, (since.only,))
        assert (ended.outcome, ended.notes) == (Outcome.NOTHING_NEW, (note,))
    reset_mark(runtime.context, rolled_back, Reset("0", "ana", "the days were wrong"))
    ended = run_task(runtime.context, rolled_back, (since.only,))
    assert (ended.outcome, ended.notes, runtime.revenue) == (Outcome.PUBLISHED, (), right)
    assert run_task(runtime.context, rolled_back, (since.only,)).notes == ()


def test_windows_are_computed_again_after_others_whose_labels_look_alike(stocked: RuntimeSetup) -> None:
    quarters, halves = (feed(scope, merge("event_id", order="any")) for scope in (QUARTER, HALF))
    stocked.code[0] = "v1"
    run(stocked, quarters, "2026-06-09T01:15")
    stocked.code[0] = "v2"
    run(stocked, halves, "2026-06-09T01:00")
    stocked.code[0] = "v1"
    assert run(stocked, quarters, "2026-06-09T01:15") is Outcome.PUBLISHED
    assert run(stocked, quarters, "2026-06-09T01:15") is Outcome.ALREADY


@pytest.mark.parametrize("write", KEYED, ids=lambda write: write.name)
def test_commits_from_before_cuts_were_remembered_are_believed_unless_others_came_later(
    runtime: RuntimeSetup, write: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, month = slice_named(BY_DAY, "2026-06-09"), slice_named(BY_MONTH, "2026-06")
    with monkeypatch.context() as earlier:
        earlier.setattr(CommitNote, "tokens", property(lambda note: dict(note.generations)))
        run_task(runtime.context, version(runtime, 1, BY_DAY, write), (day,))
        assert run_task(runtime.context, version(runtime, 1, BY_DAY, write), (day,)).outcome is Outcome.ALREADY
        monthly = version(runtime, 2, BY_MONTH, write)
        run_task(runtime.context, monthly, (month,))
    assert run_task(runtime.context, monthly, (month,)).outcome is Outcome.ALREADY  # nothing came after it
    daily = version(runtime, 1, BY_DAY, write)
    assert run_task(runtime.context, daily, (day,)).why == RECUT
    assert run_task(runtime.context, daily, (day,)).outcome is Outcome.ALREADY
    assert run_task(runtime.context, version(runtime, 2, BY_MONTH, write), (month,)).why == RECUT


def forget_months(runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Delta answers once the log is cleaned up."""
    real = runtime.target.tokens

    def forgotten(table: TableName, prefix: str) -> dict[str, Held]:
        return {
            name: replace(held, version=None, note=None) if name.endswith("/2026-06") else held
            for name, held in real(table, prefix).items()
        }

    monkeypatch.setattr(runtime.target, "tokens", forgotten)


@pytest.mark.parametrize("knows", ["ledger", "nobody"])
def test_months_that_the_log_forgot_put_no_day_in_doubt(
    runtime: RuntimeSetup, knows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an earlier version of twice, and rerun="never": what a day has read may be gone, and the day must stay."""
    day, month = slice_named(BY_DAY, "2026-06-09"), slice_named(BY_MONTH, "2026-06")
    with monkeypatch.context() as earlier:
        earlier.setattr(CommitNote, "tokens", property(lambda note: dict(note.generations)))
        run_task(runtime.context, version(runtime, 2, BY_MONTH, replace_rows()), (month,))
        daily = version(runtime, 1, BY_DAY, replace_rows(), rerun="never")
        run_task(runtime.context, daily, (day,))
    forget_months(runtime, monkeypatch)
    if knows == "nobody":
        runtime.ledger.forget("revenue", "2026-06")
    runtime.put_orders()
    assert run_task(runtime.context, daily, (day,)).outcome is Outcome.ALREADY
    assert slice_statuses(runtime.context, daily, (day,), None)[0].status == "published"
    assert runtime.revenue


def test_months_that_only_the_ledger_knows_to_be_newer_put_days_in_doubt(
    runtime: RuntimeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, month = slice_named(BY_DAY, "2026-06-09"), slice_named(BY_MONTH, "2026-06")
    with monkeypatch.context() as earlier:
        earlier.setattr(CommitNote, "tokens", property(lambda note: dict(note.generations)))
        run_task(runtime.context, version(runtime, 1, BY_DAY, replace_rows()), (day,))
        run_task(runtime.context, version(runtime, 2, BY_MONTH, replace_rows()), (month,))
    forget_months(runtime, monkeypatch)
    assert run_task(runtime.context, version(runtime, 1, BY_DAY, replace_rows()), (day,)).why == RECUT


def test_a_run_that_stays_with_its_cut_moves_its_token_once(runtime: RuntimeSetup) -> None:
    daily = version(runtime, 1, BY_DAY, replace_rows())
    for label in ("2026-06-09", "2026-06-10"):
        run_task(runtime.context, daily, (slice_named(BY_DAY, label),))
    assert {name: held.generation for name, held in runtime.target.tokens(REVENUE, "twice-cut/").items()} == {
        "twice-cut/p/revenue": 1,
        "twice-cut/p/revenue/day": 1,
    }
