"""What every target promises. A test module gives the fixture `harness`; the rest is the same for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

import pytest

from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.ports import Column, Frame, Held, Landed, Lost, Shape, Staged, Target
from twice.core.scope import Daily, Hourly, Monthly, Scope, Whole
from twice.core.since import Since
from twice.core.slice import WHOLE, Slice
from twice.core.table.owner import LAST_TAKEOVER, Owner, Ownership, cut_token, form_of, last_cut_token, takeover_token
from twice.core.table.token import CommitNote, Intention, token_name
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, ReplaceRows, WritePlan
from twice.errors import DeclarationError, InputMissing, RowsOutsideSlice, SchemaDrift, TableChanged

REVENUE = TableName("shop.revenue")
COLUMNS = (Column("order_date", "date"), Column("region", "string"), Column("revenue", "decimal(12,2)"))
DAILY = Daily("order_date", start="2026-01-01")
DAY, NEXT, THIRD = DAILY.slice_of("2026-06-09"), DAILY.slice_of("2026-06-10"), DAILY.slice_of("2026-06-11")

Row = tuple[Any, ...]


class Harness(Protocol):
    """How the suite reaches one kind of target."""

    one_slice_only: bool
    keeps_versions: bool
    appends: bool
    """Whether it takes rows without a key."""
    nested: bool
    """Whether it has maps and structs."""

    def target(self) -> Target:
        """As another run has it: on the same tables, in its own session."""

    def frame(self, target: Target, columns: Sequence[Column], rows: Sequence[Row], parts: int = 0) -> Frame:
        """In so many partitions, where there are any and the number is given."""

    def rows(self, frame: Frame) -> list[Row]: ...

    def seen(self, target: Target, table: TableName) -> list[Row]:
        """What a reader of the table sees now."""

    def files(self, table: TableName) -> Mapping[str, str]:
        """Path and content of every file the current version refers to."""

    def leftovers(self, table: TableName, attempt: str) -> Sequence[str]:
        """Files of an attempt that no version refers to."""

    def drop(self, table: TableName) -> None:
        """As somebody does who is not twice."""


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Sorted, also with NULL and nested values in them."""

    def place(row: Row) -> list[tuple[bool, Any]]:
        return [(value is not None, repr(value) if isinstance(value, (dict, tuple)) else value) for value in row]

    return sorted(rows, key=place)


def sale(day: str, region: str, revenue: str) -> Row:
    return (date.fromisoformat(day), region, Decimal(revenue))


def plan_of(*slices: Slice, task: str = "revenue") -> WritePlan:
    return WritePlan(ReplaceRows(slices), slices, tuple(token_name("p", task, slice_.label) for slice_ in slices))


def made(target: Target, name: TableName, shape: Shape, layout: Layout, evolve: bool = False) -> Shape:
    """The table's shape once it is as it was prepared: made or widened if it must be, and known to the target, by a
    commit that has a token of its own and no rows."""
    into = target.prepare(name, shape, layout, evolve)
    token = target.published(name, ["setup"])
    if evolve or not token.generations["setup"]:
        plan = WritePlan(AppendRows((WHOLE,)), (WHOLE,), ("setup",))
        attempt = f"setup-{token.generations['setup']}-{uuid4().hex[:8]}"
        staged = target.stage(name, None, plan, attempt, into=into)
        note = CommitNote(staged.attempt, "run", {"setup": token.generations["setup"] + 1})
        if not isinstance(target.commit(staged, token.generations, note), Landed):
            return made(target, name, shape, layout, evolve)
    return into.shape


def prepare(target: Target, scope: Scope = DAILY, columns: Sequence[Column] = COLUMNS, evolve: bool = False) -> Shape:
    """An empty table for this scope, or the one that is there."""
    return made(target, REVENUE, Shape(tuple(columns)), layout_of(scope), evolve)


def layout_of(scope: Scope = DAILY) -> Layout:
    return Layout(None if isinstance(scope, Whole | Since) else scope.held_in)


def generations(target: Target, plan: WritePlan) -> dict[str, int]:
    return dict(target.published(REVENUE, plan.token_names).generations)


def note_of(plan: WritePlan, attempt: str, expected: Mapping[str, int]) -> CommitNote:
    moved = {app: expected[app] + 1 for app in plan.token_names}
    return CommitNote(attempt, "run", moved, {app: Intention("code", attempt) for app in plan.token_names})


def publish(
    harness: Harness,
    target: Target,
    rows: Sequence[Row],
    *slices: Slice,
    attempt: str,
    columns: Sequence[Column] = COLUMNS,
) -> Landed | Lost:
    plan = plan_of(*slices)
    expected = generations(target, plan)
    staged = target.stage(REVENUE, harness.frame(target, columns, rows), plan, attempt)
    return target.commit(staged, expected, note_of(plan, attempt, expected))


def stage_new(
    harness: Harness,
    target: Target,
    rows: Sequence[Row],
    *slices: Slice,
    attempt: str,
    columns: Sequence[Column] = COLUMNS,
    evolve: bool = False,
) -> Staged:
    """Rows staged for a table that is made, or gets new columns, when they are published."""
    into = target.prepare(REVENUE, Shape(tuple(columns)), layout_of(), evolve)
    return target.stage(REVENUE, harness.frame(target, columns, rows), plan_of(*slices), attempt, into=into)


def zeros(*slices: Slice) -> dict[str, int]:
    return dict.fromkeys(plan_of(*slices).token_names, 0)


def commit(target: Target, staged: Staged, expected: Mapping[str, int]) -> Landed | Lost:
    return target.commit(staged, expected, note_of(staged.plan, staged.attempt, expected))


def watching(plan: WritePlan, task: str = "revenue") -> WritePlan:
    """As a run's plan is: it compares also whose the table is, and how it is cut."""
    return replace(plan, watched=(LAST_TAKEOVER, last_cut_token(Owner("p", task))))


def move_alone(target: Target, name: TableName, token: str, number: int) -> None:
    """Whoever moves a token that others watch."""
    staged = target.stage(name, None, WritePlan(AppendRows((WHOLE,)), (WHOLE,), (token,)), uuid4().hex)
    expected = target.published(name, [token]).generations
    assert isinstance(target.commit(staged, expected, CommitNote(staged.attempt, "takeover", {token: number})), Landed)


def lost_to_a_watched_token(harness: Harness, target: Target, staged: Staged) -> None:
    """A stage loses to each token that it watches, and still lands with what is true by then."""
    plan = staged.plan
    expected = dict(target.published(staged.table, plan.compared).generations)
    for token in plan.watched:
        move_alone(harness.target(), staged.table, token, 3)
        end = target.commit(staged, expected, note_of(plan, staged.attempt, expected))
        expected[token] = 3
        assert isinstance(end, Lost) and end.published.generations == expected, (token, end)
        assert harness.seen(target, staged.table) == []
    assert isinstance(target.commit(staged, expected, note_of(plan, staged.attempt, expected)), Landed)
    assert dict(target.published(staged.table, plan.watched).generations) == dict.fromkeys(plan.watched, 3)
    assert len(harness.seen(target, staged.table)) == staged.rows


def table(harness: Harness, target: Target) -> list[Row]:
    return harness.seen(target, REVENUE)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at once, each in its own thread; what each gave, or the error it raised."""
    results: list[Any] = [None] * len(calls)

    def run(at: int) -> None:
        try:
            results[at] = calls[at]()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            results[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


class TargetSuite:
    """Collected through its subclasses, which live where the fixture `harness` is."""

    # prepare

    def test_a_missing_table_holds_nothing(self, harness: Harness) -> None:
        published = harness.target().published(REVENUE, plan_of(DAY).token_names)
        assert published.version is None
        assert list(published.generations.values()) == [0]

    def test_reading_a_missing_table_says_so(self, harness: Harness) -> None:
        with pytest.raises(InputMissing, match=r"no table shop\.revenue"):
            harness.target().read(REVENUE)

    def test_a_table_that_is_made_is_partitioned_by_the_slice_column(self, harness: Harness) -> None:
        target = harness.target()
        assert prepare(target) == Shape(COLUMNS, "order_date")
        assert table(harness, target) == []

    def test_preparing_writes_nothing(self, harness: Harness) -> None:
        target = harness.target()
        for _ in range(2):
            into = target.prepare(REVENUE, Shape(COLUMNS), layout_of(), False)
            assert (into.shape, into.exists) == (Shape(COLUMNS, "order_date"), False)
        assert target.published(REVENUE, ()).version is None
        with pytest.raises(InputMissing):
            target.read(REVENUE)

    # the first publish, and new columns

    def test_the_first_publish_makes_the_table_with_its_rows_and_its_token(self, harness: Harness) -> None:
        target = harness.target()
        rows = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "us", "2.00")]
        staged = stage_new(harness, target, rows, DAY, attempt="a")
        assert harness.rows(target.read(REVENUE, at=staged)) == rows
        assert target.published(REVENUE, ()).version is None
        landed = commit(target, staged, generations(target, staged.plan))
        assert isinstance(landed, Landed)
        assert table(harness, target) == rows
        assert generations(harness.target(), staged.plan) == dict.fromkeys(staged.plan.token_names, 1)
        assert target.prepare(REVENUE, Shape(COLUMNS), layout_of(), False).shape == Shape(COLUMNS, "order_date")
        with pytest.raises(DeclarationError, match="is partitioned by order_date"):
            target.prepare(REVENUE, Shape(COLUMNS), Layout(), False)
        note = target.provenance(REVENUE, staged.plan.token_names[0], 1)
        assert note is not None
        assert note.attempt == "a"

    def test_a_first_attempt_that_is_given_up_leaves_no_table_and_binds_nobody(self, harness: Harness) -> None:
        target = harness.target()
        wrong = (Column("order_date", "date"), Column("region", "string"), Column("revenue", "string"))
        row = (date(2026, 6, 9), "eu", "one")
        stage_new(harness, target, [row], DAY, attempt="dead", columns=wrong)
        assert target.discard(REVENUE, "dead", plan_of(DAY).file_slices) > 0
        assert target.discard(REVENUE, "dead", plan_of(DAY).file_slices) == 0
        assert target.published(REVENUE, ()).version is None
        # Another one died without tidying up: what it left does not bind either.
        stage_new(harness, target, [row], DAY, attempt="killed", columns=wrong)
        right = [sale("2026-06-09", "eu", "1.00")]
        assert isinstance(commit(target, stage_new(harness, target, right, DAY, attempt="b"), zeros(DAY)), Landed)
        assert table(harness, target) == right
        assert target.discard(REVENUE, "killed", plan_of(DAY).file_slices) > 0
        assert table(harness, target) == right

    def test_two_first_publishes_of_two_slices_both_land(self, harness: Harness) -> None:
        first, second = harness.target(), harness.target()
        rows = {DAY: [sale("2026-06-09", "eu", "1.00")], NEXT: [sale("2026-06-10", "eu", "2.00")]}
        one = stage_new(harness, first, rows[DAY], DAY, attempt="a")
        other = stage_new(harness, second, rows[NEXT], NEXT, attempt="b")
        ends = together(lambda: commit(first, one, zeros(DAY)), lambda: commit(second, other, zeros(NEXT)))
        assert [type(end) for end in ends] == [Landed, Landed], ends
        assert table(harness, first) == [*rows[DAY], *rows[NEXT]]

    def test_of_two_first_publishes_with_other_columns_the_second_is_stopped(self, harness: Harness) -> None:
        target = harness.target()
        rows = [sale("2026-06-09", "eu", "1.00")]
        slow = stage_new(harness, target, rows, DAY, attempt="slow")
        wider = (*COLUMNS, Column("tax", "int"))
        fast = stage_new(harness, target, [(*sale("2026-06-10", "eu", "2.00"), 7)], NEXT, attempt="b", columns=wider)
        assert isinstance(commit(target, fast, zeros(NEXT)), Landed)
        with pytest.raises(TableChanged):
            commit(target, slow, zeros(DAY))
        assert table(harness, target) == [(*sale("2026-06-10", "eu", "2.00"), 7)]
        with pytest.raises(SchemaDrift, match="tax"):
            target.prepare(REVENUE, Shape(COLUMNS), layout_of(), False)

    def test_new_columns_are_published_with_the_rows_or_not_at_all(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        old = sale("2026-06-09", "eu", "1.00")
        publish(harness, target, [old], DAY, attempt="a")
        version = target.published(REVENUE, ()).version
        wider, row = (*COLUMNS, Column("tax", "int")), (*sale("2026-06-10", "eu", "2.00"), 7)
        staged = stage_new(harness, target, [row], NEXT, attempt="failed", columns=wider, evolve=True)
        assert harness.rows(target.read(REVENUE, at=staged)) == [row]
        target.discard(REVENUE, "failed", staged.plan.file_slices)
        # As if it had never been: for readers, and for the code before it.
        assert target.published(REVENUE, ()).version == version
        assert target.prepare(REVENUE, Shape(COLUMNS), layout_of(), False).shape == Shape(COLUMNS, "order_date")
        assert table(harness, target) == [old]
        staged = stage_new(harness, target, [row], NEXT, attempt="b", columns=wider, evolve=True)
        landed = commit(target, staged, zeros(NEXT))
        assert isinstance(landed, Landed)
        assert version is not None
        assert landed.version == version + 1
        assert table(harness, target) == [(*old, None), row]
        assert target.prepare(REVENUE, Shape(wider), layout_of(), False).shape == Shape(wider, "order_date")

    def test_new_columns_do_not_lose_what_others_published_meanwhile(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        wider = (*COLUMNS, Column("tax", "int"))
        row, third = (*sale("2026-06-10", "eu", "2.00"), 7), (*sale("2026-06-11", "eu", "2.00"), 8)
        first = stage_new(harness, target, [row], NEXT, attempt="a", columns=wider, evolve=True)
        again = stage_new(harness, target, [third], THIRD, attempt="b", columns=wider, evolve=True)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="c")
        assert isinstance(commit(target, first, zeros(NEXT)), Landed)
        # The column it wanted to add is there by now: the same one, so its rows fit.
        assert isinstance(commit(target, again, zeros(THIRD)), Landed)
        assert table(harness, target) == [(*sale("2026-06-09", "eu", "1.00"), None), row, third]

    def test_a_second_prepare_changes_nothing(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        version = target.published(REVENUE, ()).version
        assert prepare(harness.target()) == Shape(COLUMNS, "order_date")
        assert target.published(REVENUE, ()).version == version

    def test_two_that_prepare_at_once_both_succeed(self, harness: Harness) -> None:
        first, second = harness.target(), harness.target()
        shapes = together(lambda: prepare(first), lambda: prepare(second))
        assert shapes == [Shape(COLUMNS, "order_date")] * 2

    def test_a_whole_table_is_not_partitioned(self, harness: Harness) -> None:
        assert prepare(harness.target(), Whole()).partitioned_by is None

    def test_a_scope_on_another_column_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        columns = (*COLUMNS, Column("shipped", "date"))
        prepare(target, columns=columns)
        with pytest.raises(DeclarationError, match="partitioned by order_date"):
            prepare(target, Daily("shipped", start="2026-01-01"), columns)

    def test_a_time_scope_over_a_whole_table_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target, Whole())
        with pytest.raises(DeclarationError, match="is not partitioned"):
            prepare(target)

    def test_a_finer_scope_over_coarser_partitions_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        columns = (*COLUMNS, Column("order_month", "date"))
        prepare(target, Monthly("order_date", start="2026-01"), columns)
        with pytest.raises(DeclarationError, match="one partition per month"):
            prepare(target, Daily("order_date", start="2026-01-01", slice_column="order_month"), columns)

    def test_a_month_replaces_the_days_it_is_made_of(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-05-31", "eu", "1.00")], DAILY.slice_of("2026-05-31"), attempt="a")
        publish(harness, target, [sale("2026-06-09", "eu", "2.00")], DAY, attempt="b")
        monthly = Monthly("order_date", start="2026-01", slice_column="order_date")
        prepare(target, monthly)
        rows = [sale("2026-06-01", "eu", "3.00"), sale("2026-06-30", "eu", "4.00")]
        assert isinstance(publish(harness, target, rows, monthly.slice_of("2026-06"), attempt="c"), Landed)
        assert table(harness, target) == [sale("2026-05-31", "eu", "1.00"), *rows]

    # schema

    def test_a_new_column_is_refused_before_anything_is_written(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        version = target.published(REVENUE, ()).version
        with pytest.raises(SchemaDrift, match=r"tax \(int\) is new") as refused:
            prepare(target, columns=(*COLUMNS, Column("tax", "int")))
        assert "evolve=True" in refused.value.fix
        assert target.published(REVENUE, ()).version == version

    def test_a_missing_column_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        with pytest.raises(SchemaDrift, match=r"region \(string\) is missing"):
            prepare(target, columns=(COLUMNS[0], COLUMNS[2]))

    def test_a_retyped_column_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        with pytest.raises(SchemaDrift, match=r"revenue is double, the table has decimal\(12,2\)"):
            prepare(target, columns=(*COLUMNS[:2], Column("revenue", "double")))

    def test_two_columns_of_one_name_are_refused(self, harness: Harness) -> None:
        with pytest.raises(SchemaDrift, match="two columns named REGION"):
            prepare(harness.target(), columns=(*COLUMNS, Column("REGION", "string")))

    def test_staging_checks_the_columns_again(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        frame = harness.frame(target, (*COLUMNS, Column("tax", "int")), [(*sale("2026-06-09", "eu", "1.00"), 1)])
        with pytest.raises(SchemaDrift, match=r"tax \(int\) is new"):
            target.stage(REVENUE, frame, plan_of(DAY), "a")

    def test_names_that_differ_by_case_are_the_same_column(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        columns = (Column("REVENUE", "decimal(12,2)"), Column("Order_Date", "date"), Column("Region", "string"))
        prepare(target, Daily("Order_Date", start="2026-01-01"), columns)
        row = (Decimal("1.00"), date(2026, 6, 9), "eu")
        assert isinstance(publish(harness, target, [row], DAY, attempt="a", columns=columns), Landed)
        assert table(harness, target) == [sale("2026-06-09", "eu", "1.00")]

    def test_evolve_adds_a_new_column_and_old_rows_have_null_in_it(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        columns = (*COLUMNS, Column("tax", "int"))
        assert prepare(target, columns=columns, evolve=True) == Shape(columns, "order_date")
        publish(harness, target, [(*sale("2026-06-10", "eu", "2.00"), 7)], NEXT, attempt="b", columns=columns)
        assert [row[:4] for row in table(harness, target)][-1] == (*sale("2026-06-10", "eu", "2.00"), 7)

    def test_evolve_does_not_change_a_type(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        with pytest.raises(SchemaDrift, match="revenue is string"):
            prepare(target, columns=(*COLUMNS[:2], Column("revenue", "string")), evolve=True)

    # replace

    def test_the_first_run_publishes_its_rows_and_its_token(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        landed = publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        assert isinstance(landed, Landed)
        assert table(harness, target) == [sale("2026-06-09", "eu", "1.00")]
        published = harness.target().published(REVENUE, plan_of(DAY, NEXT).token_names)
        assert list(published.generations.values()) == [1, 0]
        assert published.version == landed.version

    def test_the_second_run_replaces_the_first(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "us", "2.00")], DAY, attempt="a")
        publish(harness, target, [sale("2026-06-09", "eu", "3.00")], DAY, attempt="b")
        assert table(harness, target) == [sale("2026-06-09", "eu", "3.00")]
        assert generations(target, plan_of(DAY)) == {"twice/p/revenue/2026-06-09": 2}

    def test_an_older_version_can_still_be_read_or_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        first = publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        publish(harness, target, [sale("2026-06-09", "eu", "3.00")], DAY, attempt="b")
        assert isinstance(first, Landed)
        if harness.keeps_versions:
            assert harness.rows(target.read(REVENUE, first.version)) == [sale("2026-06-09", "eu", "1.00")]
        else:
            with pytest.raises(TableChanged, match=f"version {first.version + 1}, not {first.version}"):
                target.read(REVENUE, first.version)

    def test_an_empty_result_clears_its_slice_and_only_it(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        publish(harness, target, [sale("2026-06-10", "eu", "2.00")], NEXT, attempt="b")
        assert isinstance(publish(harness, target, [], DAY, attempt="c"), Landed)
        assert table(harness, target) == [sale("2026-06-10", "eu", "2.00")]
        assert list(generations(target, plan_of(DAY)).values()) == [2]

    def test_an_empty_result_for_an_empty_slice_still_moves_the_token(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        assert isinstance(publish(harness, target, [], DAY, attempt="a"), Landed)
        assert list(generations(target, plan_of(DAY)).values()) == [1]

    def test_other_slices_keep_the_very_same_files(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-10", "eu", "2.00")], NEXT, attempt="a")
        before = dict(harness.files(REVENUE))
        assert before
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="b")
        publish(harness, target, [sale("2026-06-09", "us", "1.00")], DAY, attempt="c")
        after = harness.files(REVENUE)
        assert before.items() <= after.items()
        assert len(after) > len(before)

    def test_a_whole_table_is_replaced_in_one_commit(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target, Whole())
        whole = Whole().only
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], whole, attempt="a")
        landed = publish(harness, target, [sale("2026-06-10", "us", "2.00")], whole, attempt="b")
        assert table(harness, target) == [sale("2026-06-10", "us", "2.00")]
        assert isinstance(landed, Landed)
        if harness.keeps_versions:
            assert harness.rows(target.read(REVENUE, landed.version - 1)) == [sale("2026-06-09", "eu", "1.00")]
        publish(harness, target, [], whole, attempt="c")
        assert table(harness, target) == []

    def test_hours_are_utc_instants(self, harness: Harness) -> None:
        hourly = Hourly("seen_at", start="2026-01-01T00")
        columns = (Column("seen_at", "timestamp"), Column("seen_hour", "timestamp"))
        target = harness.target()
        prepare(target, hourly, columns)
        hour = datetime(2026, 6, 9, 13, tzinfo=timezone.utc)
        rows = [(hour.replace(minute=5), hour), (hour.replace(minute=59), hour)]
        slice_ = hourly.slice_of("2026-06-09T13")
        assert isinstance(publish(harness, target, rows, slice_, attempt="a", columns=columns), Landed)
        assert isinstance(publish(harness, target, rows[:1], slice_, attempt="b", columns=columns), Landed)
        assert len(table(harness, target)) == 1
        with pytest.raises(RowsOutsideSlice):
            publish(harness, target, rows, hourly.slice_of("2026-06-09T14"), attempt="c", columns=columns)
        prepare(target, hourly, columns)  # its partition values lie on the hour

    def test_rows_outside_the_slice_are_refused_and_nothing_changes(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        version = target.published(REVENUE, ()).version
        with pytest.raises(RowsOutsideSlice, match="2026-06-09"):
            publish(
                harness, target, [sale("2026-06-09", "eu", "1.00"), sale("2026-06-10", "eu", "1.00")], DAY, attempt="a"
            )
        assert target.published(REVENUE, ()).version == version
        assert table(harness, target) == []

    def test_rows_without_a_slice_are_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        with pytest.raises(RowsOutsideSlice):
            publish(harness, target, [(None, "eu", Decimal("1.00"))], DAY, attempt="a")
        assert table(harness, target) == []

    # staging

    def test_staged_rows_are_counted_readable_and_invisible(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        rows = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "us", "2.00")]
        staged = target.stage(REVENUE, harness.frame(target, COLUMNS, rows), plan_of(DAY), "a")
        assert (staged.rows, staged.rows_by_slice) == (2, {"2026-06-09": 2})
        assert harness.rows(target.read(REVENUE, staged)) == rows
        assert table(harness, target) == []

    def test_an_empty_stage_reads_as_no_rows(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        staged = target.stage(REVENUE, harness.frame(target, COLUMNS, []), plan_of(DAY), "a")
        assert (staged.rows, staged.rows_by_slice) == (0, {"2026-06-09": 0})
        assert harness.rows(target.read(REVENUE, staged)) == []

    def test_discard_leaves_nothing_visible_and_nothing_on_disk(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        frame = harness.frame(target, COLUMNS, [sale("2026-06-09", "eu", "1.00")])
        target.stage(REVENUE, frame, plan_of(DAY), "a")
        assert harness.leftovers(REVENUE, "a")
        assert target.discard(REVENUE, "a", [DAY]) >= 1
        assert not harness.leftovers(REVENUE, "a")
        assert table(harness, target) == []
        assert target.discard(REVENUE, "a", [DAY]) == 0

    def test_discard_finds_the_files_of_an_attempt_that_died_in_its_stage(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        frame = harness.frame(target, COLUMNS, [sale("2026-06-09", "eu", "1.00")])
        with armed(crash_at(Point.IN_STAGE)), pytest.raises(Crash):
            target.stage(REVENUE, frame, plan_of(DAY), "a")
        assert harness.leftovers(REVENUE, "a")
        assert harness.target().discard(REVENUE, "a", [DAY]) >= 1
        assert not harness.leftovers(REVENUE, "a")

    def test_discard_of_an_attempt_never_touches_another_attempts_stage(self, harness: Harness) -> None:
        target, live = harness.target(), harness.target()
        prepare(target)
        rows = [sale("2026-06-09", "eu", "1.00")]
        target.stage(REVENUE, harness.frame(target, COLUMNS, rows), plan_of(DAY), "a")
        staged = live.stage(REVENUE, harness.frame(live, COLUMNS, rows), plan_of(DAY), "a2")
        target.discard(REVENUE, "a", [DAY])
        assert isinstance(commit(live, staged, generations(live, staged.plan)), Landed)
        assert table(harness, live) == rows

    def test_discard_of_an_attempt_that_landed_deletes_nothing(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        rows = [sale("2026-06-09", "eu", "1.00")]
        first = publish(harness, target, rows, DAY, attempt="a")
        publish(harness, target, [sale("2026-06-09", "eu", "2.00")], DAY, attempt="b")
        assert isinstance(first, Landed)
        for attempt in ("a", "b"):
            harness.target().discard(REVENUE, attempt, [DAY])
        if harness.keeps_versions:  # not even what only an older version refers to
            assert harness.rows(target.read(REVENUE, first.version)) == rows
        assert table(harness, target) == [sale("2026-06-09", "eu", "2.00")]

    def test_discard_on_a_missing_table_finds_nothing(self, harness: Harness) -> None:
        assert harness.target().discard(REVENUE, "a", [DAY]) == 0

    # tokens

    def test_a_wrong_expected_generation_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        for wrong in (0, 2, 7):
            frame = harness.frame(target, COLUMNS, [sale("2026-06-09", "eu", "9.00")])
            staged = target.stage(REVENUE, frame, plan_of(DAY), f"w{wrong}")
            lost = commit(target, staged, dict.fromkeys(staged.plan.token_names, wrong))
            assert isinstance(lost, Lost)
            assert list(lost.published.generations.values()) == [1]
        assert table(harness, target) == [sale("2026-06-09", "eu", "1.00")]

    def test_the_winning_commit_says_whose_it_is(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        publish(harness, target, [sale("2026-06-10", "eu", "1.00")], NEXT, attempt="b")
        publish(harness, target, [sale("2026-06-09", "eu", "2.00")], DAY, attempt="c")
        app = plan_of(DAY).token_names[0]
        found = [harness.target().provenance(REVENUE, app, generation) for generation in (1, 2, 3)]
        assert [note and note.attempt for note in found] == ["a", "c", None]
        assert found[1] == CommitNote("c", "run", {app: 2}, {app: Intention("code", "c")})

    def test_every_token_is_reported_with_the_commit_that_wrote_it(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        publish(harness, target, [sale("2026-06-10", "eu", "1.00")], NEXT, attempt="b")
        publish(harness, target, [sale("2026-06-09", "eu", "2.00")], DAY, attempt="c")
        version = target.published(REVENUE, ()).version
        assert version is not None
        day, next_ = plan_of(DAY, NEXT).token_names
        assert harness.target().tokens(REVENUE, "twice/p/revenue/") == {
            day: Held(2, version, CommitNote("c", "run", {day: 2}, {day: Intention("code", "c")})),
            next_: Held(1, version - 1, CommitNote("b", "run", {next_: 1}, {next_: Intention("code", "b")})),
        }
        assert harness.target().tokens(REVENUE, "twice/p/revenue_of_others/") == {}
        assert harness.target().tokens(TableName("shop.missing"), "twice/p/revenue/") == {}

    def test_tokens_beside_those_of_the_slices_are_moved_with_them(self, harness: Harness) -> None:
        """Where they cannot be in the same commit, no reader finds rows before them, but in a table that is new."""
        owner, plan = Owner("p", "revenue"), plan_of(DAY)
        for attempt, moved in (("a", {"day": 1}), ("b", {"day@Europe/Berlin": 5}), ("c", {"day": 7, "window/15": 8})):
            target = harness.target()
            beside = {cut_token(owner, cut): number for cut, number in moved.items()}
            staged = stage_new(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt=attempt)
            expected = generations(target, plan)
            end = target.commit(staged, expected, replace(note_of(plan, attempt, expected), beside=beside))
            assert isinstance(end, Landed)
            found = harness.target().provenance(REVENUE, plan.token_names[0], expected[plan.token_names[0]] + 1)
            assert found is not None and (found.attempt, found.version) == (attempt, end.version)
        published = harness.target().published(REVENUE, plan.token_names)
        assert published.owners.cuts == {owner: {"day": 7, "day@Europe/Berlin": 5, "window/15": 8}}
        assert (published.owners.slices, list(published.generations.values())) == ({owner: 1}, [3])
        assert len(table(harness, harness.target())) == 1

    def test_a_look_finds_whose_slices_the_table_holds_and_who_took_it_over(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        publish(harness, target, [sale("2026-06-10", "eu", "1.00")], NEXT, attempt="b")
        old, new = Owner("p", "revenue"), Owner("q", "reven")
        other = plan_of(DAY, task="reven").token_names
        assert harness.target().published(REVENUE, other).owners == Ownership({old: 2})
        assert harness.target().published(TableName("shop.missing"), other).owners == Ownership()
        token = takeover_token(new, old)
        taking = WritePlan(AppendRows((WHOLE,)), (WHOLE,), (token,))
        staged = target.stage(REVENUE, None, taking, "c")
        assert isinstance(target.commit(staged, {token: 0}, CommitNote("c", "takeover", {token: 3}, why="so")), Landed)
        owners = harness.target().published(REVENUE, other).owners
        assert owners == Ownership({old: 2}, {(new, old): 3})
        assert (owners.other_owners(new), owners.other_owners(Owner("p", "reven"))) == ({}, {old: 2, new: 0})
        note = harness.target().provenance(REVENUE, token, 3)
        assert note is not None and (note.kind, note.why) == ("takeover", "so")
        assert len(table(harness, target)) == 2

    def test_a_look_tells_how_the_labels_of_a_tasks_slices_are_written(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        publish(harness, target, [sale("2026-06-10", "eu", "1.00")], NEXT, attempt="b")
        token = "twice/p/revenue/2026-06"
        monthly = WritePlan(AppendRows((WHOLE,)), (WHOLE,), (token,))
        staged = target.stage(REVENUE, None, monthly, "c")
        assert isinstance(target.commit(staged, {token: 0}, CommitNote("c", "run", {token: 1})), Landed)
        labels = harness.target().published(REVENUE, plan_of(DAY).token_names).owners.labels[Owner("p", "revenue")]
        assert {form_of(label) for label in labels} == {"0000-00-00", "0000-00"} and len(labels) == 2

    def test_a_watched_token_that_moved_stops_the_commit(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        frame = harness.frame(target, COLUMNS, [sale("2026-06-09", "eu", "1.00")])
        lost_to_a_watched_token(harness, target, target.stage(REVENUE, frame, watching(plan_of(DAY)), "mine"))

    def test_every_watched_token_has_an_expected_generation(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        frame = harness.frame(target, COLUMNS, [sale("2026-06-09", "eu", "1.00")])
        staged = target.stage(REVENUE, frame, watching(plan_of(DAY)), "mine")
        with pytest.raises(ValueError, match="of every token of the plan"):
            commit(target, staged, zeros(DAY))

    def test_a_missing_table_has_no_provenance(self, harness: Harness) -> None:
        assert harness.target().provenance(REVENUE, "twice/p/revenue/2026-06-09", 1) is None

    def test_what_commits_touched_is_reported_by_the_slice_column_from_the_log(self, harness: Harness) -> None:
        target = harness.target()
        assert target.touched(REVENUE, 0, "order_date") is None
        prepare(target)
        day, both = sale("2026-06-09", "eu", "1.00"), sale("2026-06-11", "eu", "1.00")
        first = publish(harness, target, [day], DAY, attempt="a")
        second = publish(harness, target, [both], THIRD, attempt="b")
        third = publish(harness, target, [], DAY, attempt="c")
        assert isinstance(first, Landed) and isinstance(second, Landed) and isinstance(third, Landed)
        found = harness.target().touched(REVENUE, first.version, "ORDER_DATE")
        assert found is not None
        assert found.version == third.version
        if found.spans is None:
            return  # a target that keeps no such log says so
        spans = {(span.version, span.low, span.high) for span in found.spans}
        assert spans == {(second.version, both[0], both[0]), (third.version, day[0], day[0])}
        anywhere = target.touched(REVENUE, second.version, None)
        assert anywhere is not None and {span.low for span in anywhere.spans or ()} == {None}
        now = target.touched(REVENUE, third.version, "order_date")
        assert now is not None and now.spans == ()
        ahead = target.touched(REVENUE, third.version + 1, "order_date")
        assert ahead is not None and ahead.spans is None

    def test_a_table_that_was_dropped_and_made_again_has_touched_every_row(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        day = sale("2026-06-09", "eu", "1.00")
        first = publish(harness, target, [day], DAY, attempt="a")
        before = harness.target().published(REVENUE, ())
        again = publish(harness, harness.target(), [day], DAY, attempt="b")
        assert isinstance(first, Landed) and isinstance(again, Landed)
        assert before.id is not None
        assert harness.target().published(REVENUE, ()).id == before.id, "the same table, whoever asks"
        known = harness.target().touched(REVENUE, first.version, "order_date")
        assert known is not None and known.id == before.id
        harness.drop(REVENUE)
        assert harness.target().published(REVENUE, ()).id is None
        assert harness.target().touched(REVENUE, first.version, "order_date") is None
        target = harness.target()
        prepare(target)
        made_again = publish(harness, target, [day], DAY, attempt="c")
        assert isinstance(made_again, Landed)
        other = harness.target().touched(REVENUE, made_again.version, "order_date")
        assert other is not None and other.id == harness.target().published(REVENUE, ()).id
        assert other.id not in (None, before.id)
        ahead = harness.target().touched(REVENUE, again.version, "order_date")
        assert ahead is not None and ahead.version == made_again.version

    @pytest.mark.parametrize("point", [Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
    def test_a_crash_around_the_commit_publishes_all_or_nothing(self, harness: Harness, point: Point) -> None:
        target = harness.target()
        prepare(target)
        rows = [sale("2026-06-09", "eu", "1.00")]
        staged = target.stage(REVENUE, harness.frame(target, COLUMNS, rows), plan_of(DAY), "a")
        with armed(crash_at(point)), pytest.raises(Crash):
            commit(target, staged, generations(target, staged.plan))
        landed = point is Point.AFTER_COMMIT
        assert list(generations(harness.target(), staged.plan).values()) == [int(landed)]
        assert table(harness, target) == (rows if landed else [])
        # The next run is not held up by a lock of the dead, and finds the generation it should.
        publish(harness, harness.target(), [sale("2026-06-09", "eu", "2.00")], DAY, attempt="b")
        assert table(harness, target) == [sale("2026-06-09", "eu", "2.00")]

    def test_a_task_that_read_its_own_target_does_not_publish_over_a_change(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        old, other = sale("2026-06-09", "eu", "1.00"), sale("2026-06-10", "eu", "5.00")
        publish(harness, target, [old], DAY, attempt="a")
        read_at = target.published(REVENUE, ()).version
        frame = harness.frame(target, COLUMNS, [sale("2026-06-09", "eu", "2.00")])
        staged = target.stage(REVENUE, frame, replace(plan_of(DAY), read_at=read_at), "b")
        publish(harness, harness.target(), [other], NEXT, attempt="c")
        with pytest.raises(TableChanged, match="changed after this task read it"):
            commit(target, staged, generations(target, staged.plan))
        assert table(harness, target) == [old, other]

    def test_a_task_that_read_its_own_unchanged_target_publishes(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a")
        frame = harness.frame(target, COLUMNS, [sale("2026-06-09", "eu", "2.00")])
        read_at = target.published(REVENUE, ()).version
        staged = target.stage(REVENUE, frame, replace(plan_of(DAY), read_at=read_at), "b")
        assert isinstance(commit(target, staged, generations(target, staged.plan)), Landed)
        assert table(harness, target) == [sale("2026-06-09", "eu", "2.00")]

    # several slices

    def test_several_slices_land_in_one_commit(self, harness: Harness) -> None:
        if harness.one_slice_only:
            pytest.skip("this path takes one slice per commit")
        target = harness.target()
        prepare(target)
        before = target.published(REVENUE, ()).version or 0
        publish(harness, target, [sale("2026-06-11", "eu", "9.00")], THIRD, attempt="a")
        rows = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-10", "eu", "2.00")]
        landed = publish(harness, target, rows, DAY, NEXT, attempt="b")
        assert isinstance(landed, Landed)
        assert landed.version == before + 2
        assert table(harness, target) == [*rows, sale("2026-06-11", "eu", "9.00")]
        assert list(generations(target, plan_of(DAY, NEXT, THIRD)).values()) == [1, 1, 1]

    def test_a_batch_empties_its_slices_without_rows(self, harness: Harness) -> None:
        if harness.one_slice_only:
            pytest.skip("this path takes one slice per commit")
        target = harness.target()
        prepare(target)
        publish(harness, target, [sale("2026-06-10", "eu", "2.00")], NEXT, attempt="a")
        publish(harness, target, [sale("2026-06-09", "eu", "1.00")], DAY, NEXT, attempt="b")
        assert table(harness, target) == [sale("2026-06-09", "eu", "1.00")]

    def test_a_batch_that_lost_one_of_its_slices_publishes_none(self, harness: Harness) -> None:
        if harness.one_slice_only:
            pytest.skip("this path takes one slice per commit")
        target, other = harness.target(), harness.target()
        prepare(target)
        plan = plan_of(DAY, NEXT)
        expected = generations(target, plan)
        rows = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-10", "eu", "1.00")]
        staged = target.stage(REVENUE, harness.frame(target, COLUMNS, rows), plan, "a")
        publish(harness, other, [sale("2026-06-10", "us", "2.00")], NEXT, attempt="b")
        lost = commit(target, staged, expected)
        assert isinstance(lost, Lost)
        assert list(lost.published.generations.values()) == [0, 1]
        assert table(harness, target) == [sale("2026-06-10", "us", "2.00")]

    def test_a_path_that_cannot_batch_says_so_before_anything_is_written(self, harness: Harness) -> None:
        if not harness.one_slice_only:
            pytest.skip("this path takes several slices per commit")
        target = harness.target()
        prepare(target)
        frame = harness.frame(target, COLUMNS, [])
        with pytest.raises(DeclarationError, match="one slice per commit"):
            target.stage(REVENUE, frame, plan_of(DAY, NEXT), "a")

    # at once

    def test_two_slices_at_once_both_land(self, harness: Harness) -> None:
        prepare(harness.target())
        first, second = harness.target(), harness.target()
        results = together(
            lambda: publish(harness, first, [sale("2026-06-09", "eu", "1.00")], DAY, attempt="a"),
            lambda: publish(harness, second, [sale("2026-06-10", "eu", "2.00")], NEXT, attempt="b"),
        )
        assert [type(result) for result in results] == [Landed, Landed], results
        assert table(harness, first) == [sale("2026-06-09", "eu", "1.00"), sale("2026-06-10", "eu", "2.00")]

    def test_runs_that_watch_the_same_tokens_do_not_disturb_each_other(self, harness: Harness) -> None:
        prepare(harness.target())
        barrier = threading.Barrier(2)
        results = together(
            lambda: _watched(harness, "2026-06-09", DAY, barrier),
            lambda: _watched(harness, "2026-06-10", NEXT, barrier),
        )
        assert [type(result) for result in results] == [Landed, Landed], results
        assert len(table(harness, harness.target())) == 2

    def test_of_two_that_move_a_token_that_both_watch_one_lands_and_the_other_may_follow(
        self, harness: Harness
    ) -> None:
        """As two first publishes under a cut do."""
        prepare(harness.target())
        barrier, token = threading.Barrier(2), last_cut_token(Owner("p", "revenue"))
        days = {"2026-06-09": DAY, "2026-06-10": NEXT}
        calls = [partial(_watched, harness, day, slice_, barrier, {token: 1}) for day, slice_ in days.items()]
        results = together(*calls)
        assert sorted(type(result).__name__ for result in results) == ["Landed", "Lost"], results
        (loser,) = (day for day, end in zip(days, results, strict=True) if isinstance(end, Lost))
        (lost,) = (end for end in results if isinstance(end, Lost))
        plan = watching(plan_of(days[loser]))
        assert lost.published.generations == {**dict.fromkeys(plan.compared, 0), token: 1}
        alone = threading.Barrier(1)
        assert isinstance(_watched(harness, loser, days[loser], alone, {token: 1}), Landed)
        assert len(table(harness, harness.target())) == 2

    def test_the_same_slice_at_once_has_one_winner(self, harness: Harness) -> None:
        prepare(harness.target())
        barrier = threading.Barrier(2)

        def run(attempt: str) -> Landed | Lost:
            target, plan = harness.target(), plan_of(DAY)
            expected = generations(target, plan)
            frame = harness.frame(target, COLUMNS, [sale("2026-06-09", attempt, "1.00")])
            staged = target.stage(REVENUE, frame, plan, attempt)
            barrier.wait(30)
            return commit(target, staged, expected)

        results = together(lambda: run("a"), lambda: run("b"))
        assert sorted(type(result).__name__ for result in results) == ["Landed", "Lost"], results
        winner = "a" if isinstance(results[0], Landed) else "b"
        target = harness.target()
        assert table(harness, target) == [sale("2026-06-09", winner, "1.00")]
        found = target.provenance(REVENUE, plan_of(DAY).token_names[0], 1)
        assert found is not None
        assert found.attempt == winner

    @pytest.mark.parametrize("scope", [DAILY, Whole()], ids=["a day", "the whole table"])
    def test_a_reader_during_publish_sees_only_old_or_new(self, harness: Harness, scope: Daily | Whole) -> None:
        target, reader = harness.target(), harness.target()
        prepare(target, scope)
        slice_ = scope.only if isinstance(scope, Whole) else DAY
        old = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "us", "1.00")]
        new = [sale("2026-06-09", "eu", "2.00"), sale("2026-06-09", "us", "2.00")]
        publish(harness, target, old, slice_, attempt="a")
        done = threading.Event()
        seen: list[list[Row]] = []

        def poll() -> None:
            while not done.is_set():
                seen.append(harness.rows(reader.read(REVENUE)))
                time.sleep(0.005)
            seen.append(harness.rows(reader.read(REVENUE)))

        def let_the_reader_look(point: Point | SendPoint) -> None:
            before = len(seen)
            while point in (Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT) and len(seen) < before + 2:
                time.sleep(0.005)

        def write() -> None:
            try:
                with armed(let_the_reader_look):
                    publish(harness, target, new, slice_, attempt="b")
            finally:
                done.set()

        together(poll, write)
        assert all(rows in (old, new) for rows in seen)
        assert (seen[0], seen[-1]) == (old, new)


def _watched(
    harness: Harness, day: str, slice_: Slice, ready: threading.Barrier, beside: Mapping[str, int] | None = None
) -> Landed | Lost:
    """Publish a day under a plan that watches tokens, once all that take part have looked."""
    target, plan = harness.target(), watching(plan_of(slice_))
    expected = dict(target.published(REVENUE, plan.compared).generations)
    attempt = f"{day}-{uuid4().hex[:8]}"
    staged = target.stage(REVENUE, harness.frame(target, COLUMNS, [sale(day, "eu", "1.00")]), plan, attempt)
    ready.wait(300)
    return target.commit(staged, expected, replace(note_of(plan, attempt, expected), beside=beside or {}))
