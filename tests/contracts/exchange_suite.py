"""What every target promises of a table that is exchanged for its side table: the last step of a rebuild."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date

import pytest
from tests.contracts.target_suite import (
    COLUMNS,
    DAILY,
    DAY,
    NEXT,
    REVENUE,
    THIRD,
    Harness,
    Row,
    layout_of,
    note_of,
    plan_of,
    prepare,
    publish,
    sale,
    table,
    watching,
)

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column, Landed, Lost, Shape, Staged, Target
from twice.core.slice import WHOLE, Slice
from twice.core.table.rebuild import side_table
from twice.core.table.token import CommitNote, Intention, token_name
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, ReplaceRows, ReplaceTable, WritePlan
from twice.errors import DeclarationError, TableChanged

OTHER = (Column("order_date", "date"), Column("area", "string"), Column("revenue", "bigint"), Column("note", "string"))
"""A column renamed, one retyped, one more."""
SIDE = side_table(REVENUE)
OWNED = "twice-side/p/revenue"
"""The token of whoever made the side table."""
OLD = [sale("2026-06-09", "eu", "1.00"), sale("2026-06-10", "eu", "2.00")]
NEW: list[Row] = [(date(2026, 6, 9), "EU", 1, None), (date(2026, 6, 10), "EU", 2, "x")]


def exchange_plan(*slices: Slice, at: int) -> WritePlan:
    wholes = tuple(replace(WHOLE, label=slice_.label) for slice_ in slices)
    verb = ReplaceTable(wholes, SIDE.name, at, token_name("p", "revenue", ""))
    return WritePlan(verb, wholes, plan_of(*slices).token_names)


def fill(
    harness: Harness, target: Target, rows: list[Row], *slices: Slice, side: TableName = SIDE, attempt: str = "fill"
) -> int:
    """Publish rows to the side table, which is made first, as its maker's; its version."""
    make_side(target, side)
    into = target.prepare(side, Shape(OTHER), layout_of(), False)
    plan = WritePlan(ReplaceRows(slices), slices, tuple(token_name("p", "side", each.label) for each in slices))
    expected = dict(target.published(side, plan.token_names).generations)
    staged = target.stage(side, harness.frame(target, OTHER, rows), plan, attempt, into=into)
    end = target.commit(staged, expected, note_of(plan, attempt, expected))
    assert isinstance(end, Landed)
    return end.version


def make_side(target: Target, side: TableName = SIDE, token: str = OWNED) -> None:
    """As it is made before anything is filled: without rows, and with its maker's token."""
    into = target.prepare(side, Shape(OTHER), layout_of(), False)
    if not into.exists:
        slices = (replace(WHOLE, label=token),)
        staged = target.stage(side, None, WritePlan(AppendRows(slices), slices, (token,)), "make", into=into)
        assert isinstance(target.commit(staged, {token: 0}, CommitNote("make", "rebuild", {token: 1})), Landed)


def stage_exchange(target: Target, *slices: Slice, at: int, attempt: str = "exchange") -> Staged:
    return target.stage(REVENUE, None, exchange_plan(*slices, at=at), attempt)


def commit_exchange(target: Target, staged: Staged, **generations: int) -> Landed | Lost:
    """From generation 1 of each slice, or the one given, to the next."""
    expected = {
        name: generations.get(slice_.label.replace("-", "_"), 1)
        for name, slice_ in zip(staged.plan.token_names, staged.plan.slices, strict=True)
    }
    moved = {name: generation + 1 for name, generation in expected.items()}
    intentions = {name: Intention("new code", "inputs") for name in moved}
    return target.commit(staged, expected, CommitNote(staged.attempt, "rebuild", moved, intentions, side="the side"))


ASK_AGAIN = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
"""What Delta says to a query that was analysed before the exchange and begins to read after it: it sees no row."""


class ExchangeSuite:
    @pytest.fixture
    def shop(self, harness: Harness) -> Harness:
        if not harness.appends:
            pytest.skip("this path does not exchange tables")
        target = harness.target()
        prepare(target)
        publish(harness, target, OLD[:1], DAY, attempt="a")
        publish(harness, target, OLD[1:], NEXT, attempt="b")
        return harness

    def test_a_table_is_exchanged_for_its_side_table_in_one_commit(self, shop: Harness) -> None:
        target = shop.target()
        before = target.published(REVENUE, ())
        at = fill(shop, target, NEW, DAY, NEXT)
        staged = stage_exchange(target, DAY, NEXT, at=at)
        assert table(shop, target) == OLD
        assert staged.rows == 2
        end = commit_exchange(target, staged)
        assert isinstance(end, Landed) and before.version is not None
        assert end.version == before.version + 1
        again = shop.target()
        after = again.published(REVENUE, plan_of(DAY, NEXT).token_names)
        assert (after.id, set(after.generations.values())) == (before.id, {2})
        assert table(shop, again) == NEW
        note = again.provenance(REVENUE, plan_of(DAY).token_names[0], 2)
        assert note is not None and (note.kind, note.side, note.version) == ("rebuild", "the side", end.version)
        again.drop_side(SIDE, OWNED)
        again.drop_side(SIDE, OWNED)
        assert table(shop, shop.target()) == NEW
        assert again.published(SIDE, ()).version is None

    def test_the_exchanged_table_is_published_to_as_any_other(self, shop: Harness) -> None:
        target = shop.target()
        assert isinstance(
            commit_exchange(target, stage_exchange(target, DAY, NEXT, at=fill(shop, target, NEW, DAY, NEXT))), Landed
        )
        target.drop_side(SIDE, OWNED)
        again = shop.target()
        shape = again.prepare(REVENUE, Shape(OTHER), layout_of(), False).shape
        assert shape == Shape(OTHER, "order_date")
        row = (date(2026, 6, 10), "US", 3, "y")
        assert isinstance(publish(shop, again, [row], NEXT, attempt="c", columns=OTHER), Landed)
        assert table(shop, again) == [NEW[0], row]

    def test_a_slice_that_was_published_meanwhile_stops_the_exchange(self, shop: Harness) -> None:
        target = shop.target()
        staged = stage_exchange(target, DAY, NEXT, at=fill(shop, target, NEW, DAY, NEXT))
        newer = [sale("2026-06-10", "eu", "3.00")]
        assert isinstance(publish(shop, shop.target(), newer, NEXT, attempt="c"), Landed)
        end = commit_exchange(target, staged)
        assert isinstance(end, Lost)
        assert end.published.generations[plan_of(NEXT).token_names[0]] == 2
        assert table(shop, shop.target()) == [OLD[0], *newer]

    def test_a_slice_that_is_new_since_stops_the_exchange(self, shop: Harness) -> None:
        target = shop.target()
        staged = stage_exchange(target, DAY, NEXT, at=fill(shop, target, NEW, DAY, NEXT))
        third = [sale("2026-06-11", "eu", "4.00")]
        assert isinstance(publish(shop, shop.target(), third, THIRD, attempt="c"), Landed)
        end = commit_exchange(target, staged)
        assert isinstance(end, Lost)
        assert end.published.generations[plan_of(THIRD).token_names[0]] == 1
        assert table(shop, shop.target()) == [*OLD, *third]

    def test_a_watched_token_that_moved_stops_the_exchange(self, shop: Harness) -> None:
        target = shop.target()
        at = fill(shop, target, NEW, DAY, NEXT)
        plan = watching(exchange_plan(DAY, NEXT, at=at))
        staged = target.stage(REVENUE, None, plan, "exchange")
        expected = {**dict.fromkeys(plan.token_names, 1), **dict.fromkeys(plan.watched, 7)}
        moved = dict.fromkeys(plan.token_names, 2)
        assert isinstance(target.commit(staged, expected, CommitNote("exchange", "rebuild", moved)), Lost)
        assert table(shop, target) == OLD

    @pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
    def test_a_crashed_exchange_left_the_old_table_or_the_new_one(self, shop: Harness, point: Point) -> None:
        target = shop.target()
        at = fill(shop, target, NEW, DAY, NEXT)
        with armed(crash_at(point)), pytest.raises(Crash):
            commit_exchange(target, stage_exchange(target, DAY, NEXT, at=at))
        again = shop.target()
        landed = point is Point.AFTER_COMMIT
        assert table(shop, again) == (NEW if landed else OLD)
        if not landed:
            again.discard(REVENUE, "exchange", (WHOLE,))
            assert not shop.leftovers(REVENUE, "exchange")
            assert isinstance(commit_exchange(again, stage_exchange(again, DAY, NEXT, at=at, attempt="more")), Landed)
        assert table(shop, shop.target()) == NEW

    def test_what_a_given_up_exchange_has_staged_is_deleted_and_the_side_table_stays(self, shop: Harness) -> None:
        target = shop.target()
        at = fill(shop, target, NEW, DAY, NEXT)
        stage_exchange(target, DAY, NEXT, at=at)
        target.discard(REVENUE, "exchange", (WHOLE,))
        assert not shop.leftovers(REVENUE, "exchange")
        assert table(shop, target) == OLD
        assert shop.seen(target, SIDE) == NEW

    def test_a_reader_sees_the_old_rows_or_the_new_ones(self, shop: Harness) -> None:
        target = shop.target()
        staged = stage_exchange(target, DAY, NEXT, at=fill(shop, target, NEW, DAY, NEXT))
        seen: list[list[Row]] = []
        exchanged = threading.Event()

        def look() -> None:
            while True:
                last = exchanged.is_set()
                try:
                    seen.append(table(shop, reader))
                except Exception as error:
                    if ASK_AGAIN not in str(error):
                        raise
                    continue
                if last:
                    return

        reader = shop.target()
        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            assert isinstance(commit_exchange(target, staged), Landed)
        finally:
            exchanged.set()
            watcher.join(60)
        assert seen[-1] == NEW
        assert all(rows in (OLD, NEW) for rows in seen)

    def test_a_table_may_get_another_layout(self, harness: Harness) -> None:
        if not harness.appends:
            pytest.skip("this path does not exchange tables")
        target = harness.target()
        into = target.prepare(REVENUE, Shape(COLUMNS), Layout(any_partitions=True), False)
        plan = WritePlan(ReplaceRows((WHOLE,)), (WHOLE,), (plan_of(DAY).token_names[0],))
        staged = target.stage(REVENUE, harness.frame(target, COLUMNS, OLD), plan, "a", into=into)
        expected = dict.fromkeys(plan.token_names, 0)
        assert isinstance(target.commit(staged, expected, note_of(plan, "a", expected)), Landed)
        with pytest.raises(DeclarationError, match="is not partitioned"):
            target.prepare(REVENUE, Shape(COLUMNS), layout_of(), False)
        at = fill(harness, target, NEW, DAY, NEXT)
        end = commit_exchange(target, stage_exchange(target, DAY, NEXT, at=at), **{"2026_06_10": 0})
        assert isinstance(end, Landed)
        again = harness.target()
        assert again.prepare(REVENUE, Shape(OTHER), layout_of(DAILY), False).shape == Shape(OTHER, "order_date")
        assert isinstance(publish(harness, again, [], DAY, attempt="c", columns=OTHER), Landed)
        assert table(harness, again) == NEW[1:]

    def test_a_side_table_that_was_filled_further_is_taken_as_it_was_planned_or_not_at_all(self, shop: Harness) -> None:
        target = shop.target()
        at = fill(shop, target, NEW, DAY, NEXT)
        staged = stage_exchange(target, DAY, NEXT, at=at)
        fill(shop, shop.target(), [], NEXT, attempt="more")
        if shop.keeps_versions:
            assert isinstance(commit_exchange(target, staged), Landed)
            assert table(shop, shop.target()) == NEW
        else:
            with pytest.raises(TableChanged):
                commit_exchange(target, staged)
            assert table(shop, shop.target()) == OLD

    def test_a_side_table_that_was_made_anew_since_is_not_taken_for_the_one_that_was_planned(
        self, shop: Harness
    ) -> None:
        """It has come to the same version, with a part of the rows."""
        target = shop.target()
        at = fill(shop, target, NEW, DAY, NEXT)
        plan = exchange_plan(DAY, NEXT, at=at)
        assert isinstance(plan.write, ReplaceTable)
        verb = replace(plan.write, side_id=target.published(SIDE, ()).id)
        target.drop_side(SIDE, OWNED)
        assert fill(shop, shop.target(), NEW[:1], DAY, attempt="other") == at
        again = shop.target()
        with pytest.raises(TableChanged):
            commit_exchange(again, again.stage(REVENUE, None, replace(plan, write=verb), "exchange"))
        assert table(shop, shop.target()) == OLD

    def test_no_other_table_is_ever_dropped(self, shop: Harness) -> None:
        with pytest.raises(ValueError, match="is not a side table"):
            shop.target().drop_side(REVENUE, plan_of(DAY).token_names[0])
        assert table(shop, shop.target()) == OLD

    def test_a_side_table_that_somebody_else_made_is_not_dropped(self, shop: Harness) -> None:
        target = shop.target()
        make_side(target, token="twice-side/p/another")
        with pytest.raises(DeclarationError, match="is not a table that this task filled beside its own") as refused:
            target.drop_side(SIDE, OWNED)
        assert "drop it yourself" in refused.value.fix
        assert target.published(SIDE, ()).version is not None
        shop.target().drop_side(SIDE, "twice-side/p/another")
        assert shop.target().published(SIDE, ()).version is None
