"""What every target promises of rows that are matched by their key."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from tests.contracts.target_suite import (
    DAILY,
    DAY,
    NEXT,
    Harness,
    Row,
    lost_to_a_watched_token,
    made,
    ordered,
    together,
    watching,
)
from tests.sample import sample

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import Column, Landed, Lost, Shape, Staged, Target
from twice.core.scope import Whole
from twice.core.table.mark import version_of
from twice.core.table.token import CommitNote, Intention, token_name
from twice.core.task import TableName
from twice.core.write import Changes, Layout, UpsertRows, WritePlan
from twice.errors import DeclarationError, NullKey, ResultRefused, RowsOutsideSlice, StageMismatch

ORDERS = TableName("shop.orders")
COLUMNS = (Column("order_id", "bigint"), Column("status", "string"), Column("updated_at", "bigint"))
BY_DAY = (*COLUMNS, Column("order_date", "date"))
ANYWHERE = tuple(replace(slice_, bounds=None) for slice_ in (DAY, NEXT))
"""Slices that cut the inputs alone, as a merge without delete_missing has them."""
NEWEST = UpsertRows(ANYWHERE[:1], ("order_id",), "updated_at")
ANY_ORDER = replace(NEWEST, newest_by=None)
INSERT = replace(ANY_ORDER, insert_only=True)


def plan_of(verb: UpsertRows) -> WritePlan:
    return WritePlan(verb, verb.slices, tuple(token_name("p", "orders", slice_.label) for slice_ in verb.slices))


def prepare(target: Target, columns: Sequence[Column] = COLUMNS, layout: Layout | None = None) -> Shape:
    return made(target, ORDERS, Shape(tuple(columns)), layout or Layout(key=("order_id",), any_partitions=True))


def generations(target: Target, plan: WritePlan) -> dict[str, int]:
    return dict(target.published(ORDERS, plan.token_names).generations)


def commit(target: Target, staged: Staged, expected: Mapping[str, int] | None = None) -> Landed | Lost:
    found = generations(target, staged.plan) if expected is None else expected
    moved = {app: generation + 1 for app, generation in found.items()}
    note = CommitNote(staged.attempt, "run", moved, dict.fromkeys(moved, Intention("code", staged.attempt)))
    return target.commit(staged, found, note)


def stage(
    harness: Harness,
    target: Target,
    rows: Sequence[Row],
    verb: UpsertRows,
    attempt: str,
    columns: Sequence[Column] = COLUMNS,
    parts: int = 0,
) -> Staged:
    return target.stage(ORDERS, harness.frame(target, columns, rows, parts), plan_of(verb), attempt)


def upsert(
    harness: Harness, target: Target, rows: Sequence[Row], verb: UpsertRows, attempt: str, **how: Any
) -> Changes:
    landed = commit(target, stage(harness, target, rows, verb, attempt, **how))
    assert isinstance(landed, Landed), landed
    assert landed.changes is not None
    return landed.changes


def table(harness: Harness, target: Target) -> list[Row]:
    return harness.seen(target, ORDERS)


class UpsertSuite:
    """Collected through its subclasses, which live where the fixture `harness` is."""

    # new, changed, unchanged, older

    def test_new_rows_are_inserted_changed_ones_updated_and_the_rest_is_left(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        first = upsert(harness, target, [(1, "new", 10), (2, "new", 10), (3, "new", 10)], NEWEST, "a")
        assert first == Changes(inserted=3)
        batch = [(1, "paid", 20), (2, "new", 10), (3, "stale", 5), (4, "new", 20)]
        assert upsert(harness, target, batch, NEWEST, "b") == Changes(inserted=1, updated=1, unchanged=1, older=1)
        assert table(harness, target) == [(1, "paid", 20), (2, "new", 10), (3, "new", 10), (4, "new", 20)]
        assert list(generations(harness.target(), plan_of(NEWEST)).values()) == [2]

    @pytest.mark.parametrize(
        ("type_", "stamps"),
        sample(
            [
                ("bigint", (10, 20, 30)),
                ("date", (date(1969, 12, 30), date(2026, 6, 9), date(2026, 6, 10))),
                ("timestamp", tuple(datetime(2026, 6, 9, hour, 30, tzinfo=timezone.utc) for hour in (1, 2, 3))),
                ("string", ("a", "b", "c")),
            ],
            of=[("bigint", (10, 20, 30)), ("string", ("a", "b", "c"))],
        ),
    )
    def test_the_least_stamp_of_what_was_updated_is_reported_as_a_mark_counts_it(
        self, harness: Harness, type_: str, stamps: Sequence[Any]
    ) -> None:
        """A reader that goes on by it knows whether it will read what was updated."""
        target, (old, mid, new) = harness.target(), stamps
        columns = (*COLUMNS[:2], Column("updated_at", type_))
        prepare(target, columns)
        first = [(1, "new", old), (2, "new", old), (3, "new", old), (4, "new", old)]
        assert upsert(harness, target, first, NEWEST, "a", columns=columns).oldest_update is None
        batch = [(1, "paid", new), (2, "paid", mid), (3, "new", old), (5, "new", old)]
        changes = upsert(harness, target, batch, NEWEST, "b", columns=columns)
        assert changes == Changes(inserted=1, updated=2, unchanged=1)
        assert changes.oldest_update == (None if type_ == "string" else version_of(mid))
        assert str(changes) == "1 inserted, 2 updated, 1 unchanged"

    def test_the_same_batch_again_rewrites_no_file_and_still_moves_its_token(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        batch = [(1, "new", 10), (2, "paid", 20), (2, "new", 10)]
        upsert(harness, target, batch, NEWEST, "a")
        before = dict(harness.files(ORDERS))
        for attempt in ("b", "c"):
            again = upsert(harness, target, batch, NEWEST, attempt)
            assert again == Changes(unchanged=2, deduplicated=1)
        assert harness.files(ORDERS) == before
        assert not harness.leftovers(ORDERS, "b")
        plan = plan_of(NEWEST)
        assert list(generations(target, plan).values()) == [3]
        found = target.provenance(ORDERS, plan.token_names[0], 3)
        assert found is not None
        assert found.attempt == "c"

    def test_a_watched_token_that_moved_stops_the_upsert(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        frame = harness.frame(target, COLUMNS, [(1, "new", 10)])
        staged = target.stage(ORDERS, frame, watching(plan_of(NEWEST), "orders"), "mine")
        lost_to_a_watched_token(harness, target, staged)

    # equally new

    def test_equally_new_rows_give_one_table_whatever_order_they_come_in(self, harness: Harness) -> None:
        """The order inside a batch holds between a batch and the table too; NULL is as new as NULL."""
        batches = [
            [(1, "a", 10), (2, "b", 10), (3, "c", None), (4, "d", 10), (4, "e", 10)],
            [(1, "b", 10), (2, "a", 10), (3, "d", None), (4, "c", 10)],
            [(1, "c", 10), (2, "c", 9), (3, "b", None), (3, "a", None)],
        ]
        tables: list[list[Row]] = []
        for order in (batches, batches[::-1], [[row for batch in batches for row in batch]]):
            target = harness.target()
            name = TableName(f"shop.ties_{len(tables)}")
            made(target, name, Shape(COLUMNS), Layout(key=("order_id",), any_partitions=True))
            for at, batch in enumerate(order):
                plan = replace(plan_of(NEWEST), token_names=(f"twice/p/ties/{at}",))
                staged = target.stage(name, harness.frame(target, COLUMNS, batch), plan, f"t{len(tables)}{at}")
                landed = target.commit(
                    staged, {plan.token_names[0]: 0}, CommitNote(staged.attempt, "run", {plan.token_names[0]: 1})
                )
                assert isinstance(landed, Landed)
            tables.append(harness.seen(target, name))
        assert tables[0] == tables[1] == tables[2]
        assert [row[0] for row in tables[0]] == [1, 2, 3, 4]

    def test_ties_are_counted_in_the_batch_and_with_the_table_and_only_where_rows_differ(
        self, harness: Harness
    ) -> None:
        target = harness.target()
        prepare(target)
        batch = [(1, "a", 10), (1, "b", 10), (1, "b", 10), (2, "a", 10), (2, "a", 10), (3, "a", 9), (3, "b", 10)]
        first = upsert(harness, target, batch, NEWEST, "a")
        assert first == Changes(inserted=3, deduplicated=4, ties=1)
        again = upsert(harness, target, [(1, "c", 10), (2, "a", 10), (3, "c", 10), (4, "a", 10)], NEWEST, "b")
        assert (again.ties, again.updated + again.older, again.unchanged, again.inserted) == (2, 2, 1, 1)
        assert upsert(harness, target, [(1, "d", 11), (2, "b", 9)], NEWEST, "c") == Changes(updated=1, older=1)
        assert upsert(harness, target, [(4, "b", 10)], INSERT, "d") == Changes(differing=1)
        assert upsert(harness, target, [(4, "c", 10)], ANY_ORDER, "e") == Changes(updated=1)

    def test_a_correction_wins_its_ties_and_still_no_newer_row_is_displaced(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        wins = replace(NEWEST, wins_ties=True)
        upsert(harness, target, [(1, "a", 10), (2, "a", None), (3, "a", 20)], NEWEST, "a")
        for attempt, status in (("b", "b"), ("c", "a"), ("d", "b")):
            changes = upsert(harness, target, [(1, status, 10), (2, status, None), (3, status, 10)], wins, attempt)
            assert changes == Changes(updated=2, older=1, ties=2)
            assert table(harness, target) == ordered([(1, status, 10), (2, status, None), (3, "a", 20)])

    def test_a_mark_that_says_its_kind_follows_one_that_was_counted(self, harness: Harness) -> None:
        """Numbers of 61 and more bits, each above the one before: Delta compares them itself on the public path."""
        target = harness.target()
        prepare(target)
        plan, held = plan_of(NEWEST), 0
        points: tuple[datetime | date | int, ...] = (
            datetime(2026, 6, 9, tzinfo=timezone.utc),
            DAY.start.date(),
            2**62 - 1,
        )
        marks = [1_000_001, *map(version_of, points)]
        for at, mark in enumerate(marks):
            staged = stage(harness, target, [(at, "new", at)], NEWEST, f"a{at}")
            note = CommitNote(f"a{at}", "run", {plan.token_names[0]: mark})
            assert isinstance(target.commit(staged, {plan.token_names[0]: held}, note), Landed)
            held = generations(harness.target(), plan)[plan.token_names[0]]
            assert held == mark
        assert [row[0] for row in table(harness, target)] == [0, 1, 2, 3]
        assert target.tokens(ORDERS, "twice/p/")[plan.token_names[0]].generation == held

    def test_an_update_rewrites_only_the_files_that_hold_its_rows(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        upsert(harness, target, [(1, "new", 10), (2, "new", 10)], NEWEST, "a")
        ours = set(harness.files(ORDERS))
        upsert(harness, target, [(3, "new", 10), (4, "new", 10)], NEWEST, "b")
        others = set(harness.files(ORDERS)) - ours
        upsert(harness, target, [(1, "paid", 20)], NEWEST, "c")
        assert others <= set(harness.files(ORDERS))
        assert not ours <= set(harness.files(ORDERS))
        assert table(harness, target) == [(1, "paid", 20), (2, "new", 10), (3, "new", 10), (4, "new", 10)]

    def test_an_old_file_replayed_late_changes_nothing(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        old = [(1, "new", 10), (2, "new", 10)]
        upsert(harness, target, old, NEWEST, "a")
        upsert(harness, target, [(1, "paid", 20)], NEWEST, "b")
        before = dict(harness.files(ORDERS))
        assert upsert(harness, target, old, NEWEST, "c") == Changes(unchanged=1, older=1)
        assert harness.files(ORDERS) == before

    def test_without_newest_by_the_last_run_wins(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        upsert(harness, target, [(1, "new", 20)], ANY_ORDER, "a")
        assert upsert(harness, target, [(1, "old", 10)], ANY_ORDER, "b") == Changes(updated=1)
        assert table(harness, target) == [(1, "old", 10)]

    def test_a_row_without_a_stamp_is_older_than_everything(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        upsert(harness, target, [(1, "new", 10), (2, "new", None), (3, "new", None)], NEWEST, "a")
        batch = [(1, "lost", None), (1, "lost", None), (2, "paid", 10), (3, "new", None)]
        changes = upsert(harness, target, batch, NEWEST, "b")
        assert changes == Changes(updated=1, unchanged=1, older=1, deduplicated=1)
        assert table(harness, target) == [(1, "new", 10), (2, "paid", 10), (3, "new", None)]

    def test_an_empty_batch_changes_nothing_and_moves_the_token(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        assert upsert(harness, target, [], NEWEST, "a") == Changes()
        upsert(harness, target, [(1, "new", 10)], NEWEST, "b")
        assert upsert(harness, target, [], NEWEST, "c") == Changes()
        assert table(harness, target) == [(1, "new", 10)]
        assert list(generations(target, plan_of(NEWEST)).values()) == [3]

    # one row of each key

    def test_several_rows_of_an_absent_key_give_one_row(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        batch = [(1, "new", 10), (1, "paid", 20), (1, "paid", 20), (2, "new", 10)]
        staged = stage(harness, target, batch, NEWEST, "a")
        assert (staged.rows, staged.deduplicated) == (2, 2)
        assert harness.rows(target.read(ORDERS, staged)) == [(1, "paid", 20), (2, "new", 10)]
        landed = commit(target, staged)
        assert isinstance(landed, Landed)
        assert landed.changes == Changes(inserted=2, deduplicated=2)
        assert table(harness, target) == [(1, "paid", 20), (2, "new", 10)]

    def test_the_survivor_is_the_same_in_every_order_and_parallelism(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        batch = [(order, f"status {n}", n % 2) for order in range(20) for n in range(8)]
        seen = []
        for attempt, parts in (("a", 0), ("b", 1), ("c", 8)):
            shuffled = random.Random(attempt).sample(batch, len(batch))
            staged = stage(harness, target, shuffled, NEWEST, attempt, parts=parts)
            assert (staged.rows, staged.deduplicated) == (20, 140)
            seen.append(harness.rows(target.read(ORDERS, staged)))
        assert seen[0] == seen[1] == seen[2]
        assert {row[2] for row in seen[0]} == {1}

    # keys

    def test_a_row_without_a_key_is_refused_and_nothing_changes(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        with pytest.raises(NullKey, match=r"order_id is NULL.*null_keys=\"match\""):
            stage(harness, target, [(1, "new", 10), (None, "new", 10)], NEWEST, "a")
        assert table(harness, target) == []

    def test_null_is_a_key_like_any_other_where_the_task_says_so(self, harness: Harness) -> None:
        target = harness.target()
        verb = replace(NEWEST, key=("order_id", "status"), null_keys="match")
        prepare(target, layout=Layout(key=verb.key, any_partitions=True, null_keys=True))
        batch = [(None, "a", 1), (None, None, 1), (1, None, 1), (None, None, 2)]
        assert upsert(harness, target, batch, verb, "a") == Changes(inserted=3, deduplicated=1)
        assert upsert(harness, target, batch, verb, "b") == Changes(unchanged=3, deduplicated=1)
        assert upsert(harness, target, [(None, None, 3)], verb, "c") == Changes(updated=1)
        assert table(harness, target) == [(None, None, 3), (None, "a", 1), (1, None, 1)]

    def test_a_key_that_the_table_does_not_have_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        with pytest.raises(DeclarationError, match="shop.orders has no column order_no"):
            prepare(target, layout=Layout(key=("order_no",), any_partitions=True))

    def test_a_table_with_several_rows_of_one_key_is_refused(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target, layout=Layout(key=("order_id", "status"), any_partitions=True))
        upsert(
            harness, target, [(1, "a", 1), (1, "b", 1), (2, "a", 1)], replace(NEWEST, key=("order_id", "status")), "a"
        )
        assert upsert(harness, target, [(2, "b", 2)], NEWEST, "b") == Changes(updated=1)
        with pytest.raises(ResultRefused, match="several rows with one key"):
            upsert(harness, target, [(1, "c", 2)], NEWEST, "c")
        assert table(harness, target) == [(1, "a", 1), (1, "b", 1), (2, "b", 2)]

    def test_a_map_is_no_key(self, harness: Harness) -> None:
        if not harness.nested:
            pytest.skip("it has no maps")
        target = harness.target()
        columns = (*COLUMNS, Column("tags", "map<string,int>"))
        prepare(target, columns)
        with pytest.raises(DeclarationError, match="tags of shop.orders is a map"):
            prepare(target, columns, Layout(key=("tags",), any_partitions=True))

    def test_columns_of_any_name_and_case_are_keys_and_stamps(self, harness: Harness) -> None:
        target = harness.target()
        columns = (Column("Order.Id", "bigint"), Column("größe", "string"), Column("Updated-At", "int"))
        verb = replace(NEWEST, key=("order.id", "GRÖSSE".replace("SS", "ß")), newest_by="updated-at")
        prepare(target, columns, Layout(key=verb.key, any_partitions=True))
        upsert(harness, target, [(1, "s", 1), (1, "m", 1)], verb, "a", columns=columns)
        changes = upsert(harness, target, [(1, "s", 2), (1, "m", 0)], verb, "b", columns=columns)
        assert changes == Changes(updated=1, older=1)
        assert table(harness, target) == [(1, "m", 1), (1, "s", 2)]

    def test_maps_and_structs_and_decimals_are_compared_by_their_content(self, harness: Harness) -> None:
        if not harness.nested:
            pytest.skip("it has no maps")
        target = harness.target()
        columns = (
            Column("order_id", "bigint"),
            Column("tags", "map<string,int>"),
            Column("place", "struct<city:string,zip:string>"),
            Column("amount", "decimal(12,4)"),
        )
        narrow = (*columns[:3], Column("amount", "decimal(10,2)"))
        prepare(target, columns)
        rows = [(1, {"a": 1, "b": 2}, ("Oslo", None), Decimal("1.50")), (2, None, None, None)]
        upsert(harness, target, rows, ANY_ORDER, "a", columns=narrow)
        same = [(1, {"b": 2, "a": 1}, ("Oslo", None), Decimal("1.50")), (2, None, None, None)]
        assert upsert(harness, target, same, ANY_ORDER, "b", columns=narrow) == Changes(unchanged=2)
        other = [(1, {"a": 1, "b": None}, ("Oslo", None), Decimal("1.50")), (2, None, (None, None), None)]
        assert upsert(harness, target, other, ANY_ORDER, "c", columns=narrow) == Changes(updated=2)

    # insert only

    def test_insert_only_leaves_what_is_there_and_counts_what_differs(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        upsert(harness, target, [(1, "new", 10), (2, "new", 10)], INSERT, "a")
        before = harness.files(ORDERS)
        batch = [(1, "paid", 20), (2, "new", 10), (3, "new", 10), (3, "new", 10)]
        changes = upsert(harness, target, batch, INSERT, "b")
        assert changes == Changes(inserted=1, unchanged=1, differing=1, deduplicated=1)
        assert table(harness, target) == [(1, "new", 10), (2, "new", 10), (3, "new", 10)]
        assert before.items() <= harness.files(ORDERS).items()
        files = dict(harness.files(ORDERS))
        assert upsert(harness, target, batch[:2], INSERT, "c") == Changes(unchanged=1, differing=1)
        assert harness.files(ORDERS) == files

    # deleting what is missing

    def test_delete_missing_deletes_inside_the_slice_only(self, harness: Harness) -> None:
        target = harness.target()
        day, other = date(2026, 6, 9), date(2026, 6, 10)
        prepare(target, BY_DAY, Layout(DAILY.held_in, ("order_id",), any_partitions=True))
        verb = replace(NEWEST, slices=(DAY,), delete_missing=True)
        upsert(harness, target, [(1, "new", 1, day), (2, "new", 1, day)], verb, "a", columns=BY_DAY)
        later = replace(verb, slices=(NEXT,))
        upsert(harness, target, [(3, "new", 1, other)], later, "b", columns=BY_DAY)
        changes = upsert(harness, target, [(1, "paid", 2, day)], verb, "c", columns=BY_DAY)
        assert changes == Changes(updated=1, deleted=1)
        assert table(harness, target) == [(1, "paid", 2, day), (3, "new", 1, other)]
        before = dict(harness.files(ORDERS))
        assert upsert(harness, target, [(1, "paid", 2, day)], verb, "d", columns=BY_DAY) == Changes(unchanged=1)
        assert harness.files(ORDERS) == before
        assert upsert(harness, target, [], verb, "e", columns=BY_DAY) == Changes(deleted=1)
        assert table(harness, target) == [(3, "new", 1, other)]

    def test_delete_missing_refuses_rows_outside_the_slice(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target, BY_DAY, Layout(DAILY.held_in, ("order_id",), any_partitions=True))
        verb = replace(NEWEST, slices=(DAY,), delete_missing=True)
        for stray in (date(2026, 6, 10), None):
            with pytest.raises(RowsOutsideSlice, match="2026-06-09"):
                stage(harness, target, [(1, "new", 1, stray)], verb, "a", BY_DAY)

    def test_a_row_that_moves_to_another_slice_with_its_stamp_is_there_whichever_slice_runs_first(
        self, harness: Harness
    ) -> None:
        """Content decides inside a slice. A row that lies outside it belongs to a slice that may no longer have it, and
        whose next run then deletes it."""
        day, other, tables = date(2026, 6, 9), date(2026, 6, 10), list[list[Row]]()
        rows: dict[date, list[list[Row]]] = {
            on: [[(key, "new", 1, on) for key in range(n, n + 10)] for n in (0, 10)] for on in (day, other)
        }
        nowhere: list[Row] = [(key, "old", 1, None) for key in range(20, 30)]
        found = [(key, "new", 1, day) for key in range(20, 30)]
        before = [(ANYWHERE[0], nowhere), (DAY, rows[day][0]), (NEXT, rows[other][1])]
        now = [(DAY, [*rows[day][1], *found]), (NEXT, rows[other][0])]
        for at, order in enumerate((now, now[::-1])):
            target, name = harness.target(), TableName(f"shop.moved_{at}")
            made(target, name, Shape(BY_DAY), Layout(DAILY.held_in, ("order_id",), any_partitions=True))
            for turn, (slice_, batch) in enumerate((*before, *order)):
                plan = plan_of(replace(NEWEST, slices=(slice_,), delete_missing=slice_.bounds is not None))
                staged = target.stage(name, harness.frame(target, BY_DAY, batch), plan, f"m{at}{turn}")
                held = dict(target.published(name, plan.token_names).generations)
                note = CommitNote(staged.attempt, "run", {app: generation + 1 for app, generation in held.items()})
                landed = target.commit(staged, held, note)
                assert isinstance(landed, Landed)
                if turn == 3:
                    wins = 20 if slice_ is DAY else 10
                    assert landed.changes == Changes(updated=wins, deleted=10, ties=wins)
            tables.append(harness.seen(target, name))
        assert tables[0] == tables[1] == ordered([*rows[other][0], *rows[day][1], *found])

    def test_a_row_older_than_another_slices_gives_way_is_counted_and_leaves_its_commit_without_inputs(
        self, harness: Harness
    ) -> None:
        """The other slice may have lost it, and then deletes it: this one must be run again after that."""
        target, day, other = harness.target(), date(2026, 6, 9), date(2026, 6, 10)
        prepare(target, BY_DAY, Layout(DAILY.held_in, ("order_id",), any_partitions=True))
        verb = replace(NEWEST, slices=(DAY,), delete_missing=True)
        later, plan = replace(verb, slices=(NEXT,)), plan_of(verb)

        def inputs() -> str | None:
            (name,) = plan.token_names
            found = target.provenance(ORDERS, name, generations(target, plan)[name])
            assert found is not None
            return found.intentions[name].inputs

        upsert(harness, target, [(4, "lost", 20, None)], NEWEST, "z", columns=BY_DAY)
        upsert(harness, target, [(1, "old", 20, other), (2, "old", 20, other)], later, "a", columns=BY_DAY)
        assert upsert(harness, target, [(3, "new", 20, day)], verb, "b", columns=BY_DAY) == Changes(inserted=1)
        assert inputs() == "b"
        batch = [(1, "moved", 10, day), (2, "moved", None, day), (3, "older", 10, day), (4, "found", 10, day)]
        displaced = upsert(harness, target, batch, verb, "c", columns=BY_DAY)
        assert displaced == Changes(older=4, elsewhere=3)
        assert inputs() is None
        new = (5, "new", 10, day)  # also where the commit writes rows
        assert upsert(harness, target, [*batch, new], verb, "d", columns=BY_DAY) == Changes(
            inserted=1, older=4, elsewhere=3
        )
        assert inputs() is None
        assert upsert(harness, target, [], later, "e", columns=BY_DAY) == Changes(deleted=2)
        again = upsert(harness, target, [*batch, new], verb, "f", columns=BY_DAY)
        assert again == Changes(inserted=2, unchanged=1, older=2, elsewhere=1)
        assert table(harness, target) == ordered([*batch[:2], (3, "new", 20, day), (4, "lost", 20, None), new])
        assert upsert(harness, target, [*batch[:3], new], verb, "g", columns=BY_DAY) == Changes(unchanged=3, older=1)
        assert inputs() == "g", "older than a row of its own slice, as ever"

    def test_content_decides_between_equally_new_rows_of_one_slice_also_where_missing_ones_go(
        self, harness: Harness
    ) -> None:
        day, tables = date(2026, 6, 9), []
        verb = replace(NEWEST, slices=(DAY,), delete_missing=True)
        batches = [[(key, status, 1, day) for key in range(10)] for status in ("a", "b")]
        for at, order in enumerate((batches, batches[::-1])):
            target, name = harness.target(), TableName(f"shop.inside_{at}")
            made(target, name, Shape(BY_DAY), Layout(DAILY.held_in, ("order_id",), any_partitions=True))
            for turn, rows in enumerate(order):
                plan = plan_of(verb)
                staged = target.stage(name, harness.frame(target, BY_DAY, rows), plan, f"i{at}{turn}")
                note = CommitNote(staged.attempt, "run", {plan.token_names[0]: turn + 1})
                assert isinstance(target.commit(staged, {plan.token_names[0]: turn}, note), Landed)
            tables.append(harness.seen(target, name))
        assert tables[0] == tables[1]

    def test_delete_missing_on_the_whole_table_deletes_everywhere(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        verb = replace(NEWEST, slices=(Whole().only,), delete_missing=True)
        upsert(harness, target, [(1, "new", 1), (2, "new", 1), (3, "new", 5)], verb, "a")
        changes = upsert(harness, target, [(2, "paid", 2), (3, "old", 4), (4, "new", 1)], verb, "b")
        assert changes == Changes(inserted=1, updated=1, older=1, deleted=1)
        assert table(harness, target) == [(2, "paid", 2), (3, "new", 5), (4, "new", 1)]

    # partitions

    def test_a_row_whose_partition_changes_leaves_the_old_one(self, harness: Harness) -> None:
        target = harness.target()
        by_day = Layout(DAILY.held_in, any_partitions=False)
        prepare(target, BY_DAY, by_day)
        day, other = date(2026, 6, 9), date(2026, 6, 10)
        rows = [(1, "new", 1, day), (2, "new", 1, day), (3, "new", 1, other), (4, "new", 1, None)]
        upsert(harness, target, rows, NEWEST, "a", columns=BY_DAY)
        moved = [(1, "moved", 2, other), (4, "found", 2, day)]
        assert upsert(harness, target, moved, NEWEST, "b", columns=BY_DAY) == Changes(updated=2)
        assert table(harness, target) == [(1, "moved", 2, other), (2, "new", 1, day), (3, "new", 1, other), moved[1]]

    def test_a_table_partitioned_otherwise_is_taken_as_it_is(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target, BY_DAY, Layout(DAILY.held_in))
        assert prepare(target, BY_DAY).partitioned_by == "order_date"
        with pytest.raises(DeclarationError, match="has status of type string, and this scope needs date"):
            column = replace(DAILY.held_in, name="status")
            prepare(target, BY_DAY, Layout(column, ("order_id",), any_partitions=True))

    # tokens, crashes, others

    def test_slices_out_of_order_leave_the_newest_rows(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        batches = {ANYWHERE[0]: [(1, "new", 1), (2, "new", 1)], ANYWHERE[1]: [(2, "paid", 2), (3, "new", 2)]}
        expected = [(1, "new", 1), (2, "paid", 2), (3, "new", 2)]
        for slice_ in (ANYWHERE[1], ANYWHERE[0], ANYWHERE[1]):
            verb = replace(NEWEST, slices=(slice_,))
            upsert(harness, target, batches[slice_], verb, f"a{slice_.label[-1]}")
        assert table(harness, target) == expected
        both = WritePlan(NEWEST, ANYWHERE, tuple(token_name("p", "orders", slice_.label) for slice_ in ANYWHERE))
        assert list(generations(target, both).values()) == [1, 2]

    def test_a_lost_token_publishes_nothing(self, harness: Harness) -> None:
        target = harness.target()
        prepare(target)
        upsert(harness, target, [(1, "new", 1)], NEWEST, "a")
        staged = stage(harness, target, [(1, "paid", 2), (2, "new", 1)], NEWEST, "b")
        lost = commit(target, staged, dict.fromkeys(staged.plan.token_names, 0))
        assert isinstance(lost, Lost)
        assert table(harness, target) == [(1, "new", 1)]
        target.discard(ORDERS, "b", staged.plan.file_slices)
        assert not harness.leftovers(ORDERS, "b")

    @pytest.mark.parametrize("point", [Point.IN_STAGE, Point.BEFORE_COMMIT, Point.AFTER_COMMIT])
    def test_a_crashed_upsert_run_again_gives_the_table_of_one_run(self, harness: Harness, point: Point) -> None:
        target = harness.target()
        prepare(target, BY_DAY, Layout(DAILY.held_in))
        day, other = date(2026, 6, 9), date(2026, 6, 10)
        upsert(harness, target, [(1, "new", 1, day), (2, "new", 1, other)], NEWEST, "a", columns=BY_DAY)
        batch = [(1, "paid", 2, day), (2, "new", 1, other), (3, "new", 1, day)]
        with armed(crash_at(point)), pytest.raises(Crash):
            upsert(harness, target, batch, NEWEST, "b", columns=BY_DAY)
        landed = point is Point.AFTER_COMMIT
        again = harness.target()
        assert list(generations(again, plan_of(NEWEST)).values()) == [1 + landed]
        again.discard(ORDERS, "b", plan_of(NEWEST).file_slices)
        assert not harness.leftovers(ORDERS, "b")
        changes = upsert(harness, again, batch, NEWEST, "c", columns=BY_DAY)
        assert changes == (Changes(unchanged=3) if landed else Changes(inserted=1, updated=1, unchanged=1))
        assert table(harness, again) == ordered(batch)
        assert not harness.leftovers(ORDERS, "c")

    def test_two_at_once_on_one_token_have_one_winner(self, harness: Harness) -> None:
        first, second = harness.target(), harness.target()
        prepare(first)
        stages = [
            (first, stage(harness, first, [(1, "a", 1), (2, "x", 1)], NEWEST, "a")),
            (second, stage(harness, second, [(1, "b", 1), (3, "x", 1)], NEWEST, "b")),
        ]
        zero = dict.fromkeys(plan_of(NEWEST).token_names, 0)
        ends = together(*(lambda t=t, s=s: commit(t, s, zero) for t, s in stages))
        assert sorted(type(end).__name__ for end in ends) == ["Landed", "Lost"], ends
        rows = [(1, "a", 1), (2, "x", 1)] if isinstance(ends[0], Landed) else [(1, "b", 1), (3, "x", 1)]
        assert table(harness, first) == rows

    def test_two_slices_at_once_both_land_and_the_newest_row_stays(self, harness: Harness) -> None:
        first, second = harness.target(), harness.target()
        prepare(first)
        upsert(harness, first, [(1, "new", 1)], NEWEST, "z")
        later = replace(NEWEST, slices=ANYWHERE[1:])
        ends = together(
            lambda: commit(first, stage(harness, first, [(1, "paid", 3), (2, "new", 1)], NEWEST, "a")),
            lambda: commit(second, stage(harness, second, [(1, "sent", 2), (3, "new", 1)], later, "b")),
        )
        assert all(isinstance(end, Landed) for end in ends), ends
        assert table(harness, first) == [(1, "paid", 3), (2, "new", 1), (3, "new", 1)]

    def test_staged_rows_that_were_collected_are_not_committed(self, harness: Harness) -> None:
        """After a mark was set back, the token is again where a slow attempt expects it; its files are not."""
        target = harness.target()
        prepare(target)
        staged = stage(harness, target, [(1, "new", 1)], NEWEST, "slow")
        assert target.discard(ORDERS, "slow", staged.plan.file_slices) >= 1
        with pytest.raises(StageMismatch, match="are gone"):
            commit(target, staged)
        assert table(harness, target) == []

    def test_random_batches_give_what_all_their_rows_give_in_one(self, harness: Harness) -> None:
        """The order of rows is total: it does not matter which of them came together."""
        target = harness.target()
        prepare(target)
        rnd = random.Random(7)
        given: list[Row] = []
        for attempt in "abc":
            batch = [(rnd.randrange(12), rnd.choice(["x", "y"]), rnd.randrange(4)) for _ in range(15)]
            given += batch
            upsert(harness, target, batch, NEWEST, attempt, parts=3)
            held = table(harness, target)
            together = stage(harness, target, given, NEWEST, f"all-{attempt}", parts=2)
            assert held == ordered(harness.rows(target.read(ORDERS, together)))
            assert {row[0]: row[2] for row in held} == {
                key: max(r[2] for r in given if r[0] == key) for key, *_ in given
            }
            target.discard(ORDERS, f"all-{attempt}", plan_of(NEWEST).file_slices)
