"""What every target promises of rows without a key: only the token shows whether they are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timezone

import pytest
from tests.contracts.target_suite import (
    DAILY,
    Harness,
    Row,
    lost_to_a_watched_token,
    made,
    ordered,
    together,
    watching,
)

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column, Landed, Lost, Shape, Staged, Target
from twice.core.since import SINCE
from twice.core.table.mark import mark_of, version_of
from twice.core.table.token import CommitNote, Cursor, token_name
from twice.core.task import TableName
from twice.core.write import AppendRows, Cut, Layout, WritePlan
from twice.errors import DeclarationError, SchemaDrift, StageMismatch, TableTaken

EVENTS = TableName("shop.events")
COLUMNS = (Column("name", "string"), Column("day", "date"))
ANYWHERE = Layout(any_partitions=True)
PLAN = WritePlan(AppendRows((SINCE,)), (SINCE,), (token_name("p", "events", SINCE.label),))
APP = PLAN.token_names[0]
MADE, SEEN = Cursor("made", "shop.changes"), Cursor("seen", "shop.changes")
ONE, TWO = ("click", date(2026, 6, 9)), ("view", date(2026, 6, 10))


def prepare(target: Target, layout: Layout = ANYWHERE, columns: Sequence[Column] = COLUMNS) -> Shape:
    return made(target, EVENTS, Shape(tuple(columns)), layout)


def mark(target: Target) -> int:
    return target.published(EVENTS, [APP]).generations[APP]


def move(target: Target, staged: Staged, expected: int, to: int) -> Landed | Lost:
    return target.commit(staged, {APP: expected}, CommitNote(staged.attempt, "run", {APP: to}))


def append(harness: Harness, target: Target, rows: Sequence[Row], to: int, attempt: str) -> Landed | Lost:
    staged = target.stage(EVENTS, harness.frame(target, COLUMNS, rows), PLAN, attempt)
    return move(target, staged, mark(target), to)


def reset(target: Target, to: int, attempt: str) -> Landed | Lost:
    return move(target, target.stage(EVENTS, None, PLAN, attempt), mark(target), to)


def table(harness: Harness, target: Target) -> list[Row]:
    return harness.seen(target, EVENTS)


class AppendSuite:
    """Collected through its subclasses, which live where the fixture `harness` is."""

    @pytest.fixture
    def log(self, harness: Harness) -> Harness:
        """A harness that takes rows without a key."""
        if not harness.appends:
            pytest.skip("this path does not append")
        return harness

    def test_rows_are_added_to_those_that_are_there_also_equal_ones(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        assert isinstance(append(log, target, [ONE, ONE], 5, "a"), Landed)
        before = log.files(EVENTS)
        assert isinstance(append(log, target, [ONE, TWO], 9, "b"), Landed)
        assert table(log, target) == [ONE, ONE, ONE, TWO]
        assert before.items() <= log.files(EVENTS).items()
        assert mark(log.target()) == 9

    def test_a_watched_token_that_moved_stops_the_append(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        frame = log.frame(target, COLUMNS, [ONE, TWO])
        lost_to_a_watched_token(log, target, target.stage(EVENTS, frame, watching(PLAN, "events"), "mine"))

    def test_a_mark_that_says_its_kind_follows_one_that_was_counted_and_may_be_set_back(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        append(log, target, [ONE], 1_000_001, "a")
        append(log, target, [TWO], version_of(ONE[1]), "b")
        assert mark(log.target()) == version_of(ONE[1])
        reset(target, version_of(-3), "c")
        reset(target, version_of(datetime(2026, 6, 9, tzinfo=timezone.utc)), "d")
        assert mark_of(mark(log.target())) == datetime(2026, 6, 9, tzinfo=timezone.utc)
        assert table(log, target) == [ONE, TWO]

    def test_a_mark_says_what_it_counts_also_where_it_does_not_move(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        staged = target.stage(EVENTS, log.frame(target, COLUMNS, [ONE]), PLAN, "a")
        target.commit(staged, {APP: 0}, CommitNote("a", "run", {APP: 5}, cursor=MADE))
        reset = target.stage(EVENTS, None, PLAN, "b")
        for attempt, cursor in (("a", MADE), ("b", SEEN)):
            note = log.target().provenance(EVENTS, APP, 5)
            assert note is not None and (note.attempt, note.cursor) == (attempt, cursor)
            if attempt == "a":
                assert isinstance(
                    target.commit(reset, {APP: 5}, CommitNote("b", "reset", {APP: 5}, cursor=SEEN)), Landed
                )
        assert (mark(log.target()), table(log, target)) == (5, [ONE])

    def test_the_token_says_whether_they_are_there(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        late = target.stage(EVENTS, log.frame(target, COLUMNS, [ONE]), PLAN, "late")
        append(log, log.target(), [ONE], 5, "a")
        lost = move(target, late, 0, 5)
        assert isinstance(lost, Lost)
        assert lost.published.generations == {APP: 5}
        assert table(log, target) == [ONE]

    def test_a_table_remembers_how_the_slices_of_its_task_are_cut(self, log: Harness) -> None:
        target = log.target()
        by_halves = replace(ANYWHERE, cut=Cut("p/events", "window/30"))
        prepare(target, by_halves)
        prepare(log.target(), by_halves)
        with pytest.raises(TableTaken, match="has one slice per window of 30 minutes, and this scope one per day in"):
            prepare(log.target(), replace(ANYWHERE, cut=Cut("p/events", "day@Europe/Berlin")))
        prepare(log.target(), replace(ANYWHERE, cut=Cut("p/taker", "day@Europe/Berlin")))  # which took it over
        assert mark(target) == 0

    def test_an_empty_append_moves_its_token(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        assert isinstance(append(log, target, [], 3, "a"), Landed)
        assert (table(log, target), mark(target)) == ([], 3)

    def test_without_a_frame_the_token_moves_alone_also_back(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        assert isinstance(reset(target, 9, "a"), Landed)
        before = dict(harness.files(EVENTS))
        assert isinstance(reset(target, 4, "b"), Landed)
        assert mark(harness.target()) == 4
        assert isinstance(reset(target, 4, "c"), Landed)
        assert harness.files(EVENTS) == before
        found = target.provenance(EVENTS, APP, 4)
        assert found is not None
        assert found.attempt == "c"
        stale = target.stage(EVENTS, None, PLAN, "d")
        assert isinstance(move(target, stale, 9, 1), Lost)
        assert mark(target) == 4

    def test_a_table_partitioned_by_anything_takes_them(self, log: Harness) -> None:
        target = log.target()
        prepare(target, Layout(replace(DAILY.held_in, name="day")))
        assert prepare(target).partitioned_by == "day"
        append(log, target, [ONE, TWO, ("none", None)], 1, "a")
        assert table(log, target) == ordered([ONE, TWO, ("none", None)])

    def test_columns_are_checked(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        columns = (Column("day", "date"), Column("NAME", "string"))
        target.stage(EVENTS, log.frame(target, columns, [(ONE[1], ONE[0])]), PLAN, "a")
        with pytest.raises(SchemaDrift, match="is missing"):
            target.stage(EVENTS, log.frame(target, columns[:1], [(ONE[1],)]), PLAN, "b")

    @pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
    def test_a_crashed_append_run_again_adds_its_rows_once(self, log: Harness, point: Point) -> None:
        target = log.target()
        prepare(target, Layout(replace(DAILY.held_in, name="day")))
        with armed(crash_at(point)), pytest.raises(Crash):
            append(log, target, [ONE, TWO], 5, "a")
        again = log.target()
        landed = point is Point.AFTER_COMMIT
        assert mark(again) == (5 if landed else 0)
        if not landed:
            assert again.discard(EVENTS, "a", PLAN.file_slices) >= 2
            append(log, again, [ONE, TWO], 5, "b")
        assert table(log, again) == [ONE, TWO]
        assert not log.leftovers(EVENTS, "a")

    def test_two_at_once_add_their_rows_once(self, log: Harness) -> None:
        first, second = log.target(), log.target()
        prepare(first)
        stages = [(t, t.stage(EVENTS, log.frame(t, COLUMNS, [ONE]), PLAN, a)) for t, a in ((first, "a"), (second, "b"))]
        ends = together(*(lambda t=t, s=s: move(t, s, 0, 5) for t, s in stages))
        assert sorted(type(end).__name__ for end in ends) == ["Landed", "Lost"], ends
        assert table(log, first) == [ONE]

    def test_staged_rows_collected_before_the_mark_was_set_back_are_not_committed(self, log: Harness) -> None:
        target = log.target()
        prepare(target)
        slow = target.stage(EVENTS, log.frame(target, COLUMNS, [ONE]), PLAN, "slow")
        append(log, log.target(), [ONE], 5, "a")
        target.discard(EVENTS, "slow", PLAN.file_slices)
        reset(log.target(), 0, "reset")
        with pytest.raises(StageMismatch, match="are gone"):
            move(target, slow, 0, 5)
        assert (table(log, target), mark(target)) == ([ONE], 0)

    def test_a_path_that_cannot_compare_and_swap_refuses_them(self, harness: Harness) -> None:
        if harness.appends:
            pytest.skip("this path appends")
        target = harness.target()
        prepare(target)
        with pytest.raises(DeclarationError, match="cannot be appended once to shop.events"):
            target.stage(EVENTS, harness.frame(target, COLUMNS, [ONE]), PLAN, "a")
