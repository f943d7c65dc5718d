"""Upserts and appends where Delta itself comes in: other writers, deletion vectors, unusual tables, Spark's plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.append_suite import APP, EVENTS, ONE, PLAN, append, mark, move, reset
from tests.contracts.append_suite import COLUMNS as EVENT_COLUMNS
from tests.contracts.append_suite import prepare as prepare_events
from tests.contracts.delta_harness import UNUSUAL, DeltaHarness
from tests.contracts.target_suite import DAILY, DAY
from tests.contracts.upsert_suite import (
    BY_DAY,
    COLUMNS,
    NEWEST,
    ORDERS,
    commit,
    generations,
    plan_of,
    prepare,
    stage,
    table,
    upsert,
)
from tests.sample import sample

from twice.core.failure.failpoints import Point, SendPoint, armed
from twice.core.ports import Landed
from twice.core.write import Changes, Layout
from twice.errors import RunError, StageLost, StageMismatch


@pytest.fixture
def harness(spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, internal=True)


@pytest.fixture(params=[True, False], ids=["internal", "public"])
def either(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, internal=request.param)


def sql(harness: DeltaHarness, statement: str, name: Any = ORDERS) -> list[Any]:
    target: Any = harness.target()
    rows: list[Any] = target._session.sql(statement.format(f"delta.`{harness.locate(name)}`")).collect()
    return rows


def meanwhile(harness: DeltaHarness, statement: str, times: int = 1) -> Any:
    """Somebody who does not take our lock writes right before our commit, on so many of its tries."""
    turns = iter(range(times))

    def action(point: Point | SendPoint) -> None:
        if point is Point.BEFORE_COMMIT and next(turns, None) is not None:
            sql(harness, statement)

    return armed(action)


# Other writers


@pytest.mark.parametrize(
    ("theirs", "changes", "rows"),
    sample(
        [
            ("INSERT INTO {} VALUES (3, 'theirs', 1)", Changes(updated=2), [(1, "paid", 2), (3, "paid", 2)]),
            (
                "UPDATE {} SET updated_at = 9 WHERE order_id = 1",
                Changes(inserted=1, older=1),
                [(1, "new", 9), (3, "paid", 2)],
            ),
            ("DELETE FROM {} WHERE order_id = 1", Changes(inserted=2), [(1, "paid", 2), (3, "paid", 2)]),
        ],
        of=[("INSERT INTO {} VALUES (3, 'theirs', 1)", Changes(updated=2), [(1, "paid", 2), (3, "paid", 2)])],
    ),
)
def test_rows_that_others_change_between_stage_and_commit_are_judged_again(
    harness: DeltaHarness, theirs: str, changes: Changes, rows: list[Any]
) -> None:
    target = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1), (2, "new", 1)], NEWEST, "a")
    with meanwhile(harness, theirs):
        assert upsert(harness, target, [(1, "paid", 2), (3, "paid", 2)], NEWEST, "b") == changes
    assert table(harness, target) == sorted([*rows, (2, "new", 1)])
    assert not harness.leftovers(ORDERS, "b")


def test_a_batch_that_changed_nothing_is_judged_again_too(either: DeltaHarness) -> None:
    """Its commit has no file: only the registered read makes theirs a conflict."""
    target = either.target()
    prepare(target)
    upsert(either, target, [(1, "new", 1)], NEWEST, "a")
    with meanwhile(either, "UPDATE {} SET status = 'theirs', updated_at = 0"):
        assert upsert(either, target, [(1, "new", 1)], NEWEST, "b") == Changes(updated=1)
    assert table(either, target) == [(1, "new", 1)]


@pytest.mark.long
def test_what_a_merge_did_is_not_reported_where_others_came_before_it(spark: Any, tmp_path: Path) -> None:
    """Delta begins the transaction of its MERGE itself: the rule holds on the version it reads, our counts may not."""
    public = DeltaHarness(spark, tmp_path, internal=False)
    target = public.target()
    prepare(target)
    upsert(public, target, [(1, "new", 1)], NEWEST, "a")
    staged = stage(public, target, [(1, "paid", 2), (2, "new", 1)], NEWEST, "b")
    with meanwhile(public, "UPDATE {} SET updated_at = 9"):
        assert commit(target, staged) == Landed(3, changes=None)
    assert table(public, target) == [(1, "new", 9), (2, "new", 1)]


@pytest.mark.long
def test_a_merge_that_others_came_before_does_not_say_of_which_inputs_it_is_all(spark: Any, tmp_path: Path) -> None:
    """Rows may have been displaced by theirs: a process that dies right after it leaves a slice that is computed
    again."""
    public = DeltaHarness(spark, tmp_path, internal=False)
    target, day = public.target(), DAY.start.date()
    prepare(target, BY_DAY, Layout(DAILY.held_in, ("order_id",), any_partitions=True))
    verb = replace(NEWEST, slices=(DAY,), delete_missing=True)
    upsert(public, target, [(1, "new", 1, day)], verb, "a", columns=BY_DAY)
    staged = stage(public, target, [(1, "new", 1, day), (2, "moved", 1, day)], verb, "b", BY_DAY)
    with meanwhile(public, "INSERT INTO {} VALUES (2, 'theirs', 9, DATE '2026-06-10')"):
        assert commit(target, staged) == Landed(3, changes=None)
    (name,) = staged.plan.token_names
    note = target.provenance(ORDERS, name, 2)
    assert note is not None and note.intentions[name].inputs is None


@pytest.mark.long
def test_writers_that_never_stop_are_reported_and_leave_nothing_behind(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1)], NEWEST, "a")
    staged = stage(harness, target, [(1, "paid", 2), (1, "old", 0)], NEWEST, "b")
    with meanwhile(harness, "UPDATE {} SET updated_at = updated_at - 1", 9), pytest.raises(RunError, match="5 times"):
        commit(target, staged)
    assert table(harness, target) == [(1, "new", -4)]
    target.discard(ORDERS, "b", staged.plan.file_slices)
    assert not harness.leftovers(ORDERS, "b")


def test_the_table_is_not_locked_while_rows_are_compared_and_written(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twice.targets.delta.internal import upsert as path
    from twice.targets.delta.lock import locked

    target: Any = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1)], NEWEST, "a")
    real, seen = path._written, []

    def give_up(holder: str, seconds: float) -> None:
        raise AssertionError(f"{holder} has locked it")

    def written(*args: Any) -> list[Any]:
        with locked(target._session._jvm, harness.locate(ORDERS), give_up):
            seen.append("free")
        return real(*args)

    monkeypatch.setattr(path, "_written", written)
    upsert(harness, target, [(1, "paid", 2)], NEWEST, "b")
    assert seen == ["free"]


# What a commit is about to do


def test_a_row_lost_on_the_way_stops_the_commit(harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    from twice.targets.delta.write.row_diff import RowDiff

    target = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1), (2, "new", 1)], NEWEST, "a")
    monkeypatch.setattr(RowDiff, "staying", lambda self, rows: rows.where("false"))
    with pytest.raises(StageMismatch, match="put 1 rows in and take 2 out"):
        upsert(harness, target, [(1, "paid", 2)], NEWEST, "b")
    assert table(harness, target) == [(1, "new", 1), (2, "new", 1)]


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:40])])
def test_files_written_for_the_commit_itself_that_are_gone_or_cut_short_are_never_published(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], object]
) -> None:
    """Between their writing and the lock there is as much time as another's commit takes: enough for a VACUUM."""
    from twice.targets.delta.internal import upsert as path

    target = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1), (2, "new", 1)], NEWEST, "a")
    staged = stage(harness, target, [(1, "paid", 2), (2, "new", 1)], NEWEST, "b")
    real = path._work

    def work(*args: Any) -> Any:
        todo = real(*args)
        for name in {Path(file) for file in harness.leftovers(ORDERS, "b")} - {
            Path(harness.locate(ORDERS)) / file for file in staged.files
        }:
            harm(name)
        return todo

    monkeypatch.setattr(path, "_work", work)
    with pytest.raises(StageLost, match="staged"):
        commit(target, staged)
    assert table(harness, target) == [(1, "new", 1), (2, "new", 1)]
    monkeypatch.undo()
    target.discard(ORDERS, "b", staged.plan.file_slices)
    assert upsert(harness, target, [(1, "paid", 2)], NEWEST, "c") == Changes(updated=1)


@pytest.mark.parametrize("checksums", sample([True, False], of=[True]))
def test_rows_deleted_by_a_deletion_vector_stay_deleted(harness: DeltaHarness, checksums: bool) -> None:
    target = harness.target()
    prepare(target)
    sql(harness, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    upsert(harness, target, [(1, "new", 1), (2, "new", 1), (3, "new", 1)], NEWEST, "a")
    sql(harness, "DELETE FROM {} WHERE order_id = 2")
    if not checksums:
        for path in (Path(harness.locate(ORDERS)) / "_delta_log").glob("*.crc"):
            path.unlink()
    batch = [(1, "paid", 2), (3, "new", 1)]
    assert upsert(harness, target, batch, NEWEST, "b") == Changes(updated=1, unchanged=1)
    assert table(harness, target) == [(1, "paid", 2), (3, "new", 1)]
    assert upsert(harness, target, [(2, "back", 1)], NEWEST, "c") == Changes(inserted=1)


def test_a_table_of_several_partition_columns_is_upserted_in_place(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    rows = "SELECT CAST(id AS BIGINT) order_id, CONCAT('s', id % 2) status, id updated_at FROM range(4)"
    frame = target._session.sql(rows)
    frame.write.format("delta").partitionBy("status", "updated_at").save(harness.locate(ORDERS))
    prepare(target)
    staged = stage(harness, target, [(1, "moved", 7), (9, "new", 9)], NEWEST, "a")
    assert staged.handle.folder is None
    assert target.discard(ORDERS, "a", staged.plan.file_slices) == 2
    assert upsert(harness, target, [(1, "moved", 7), (9, "new", 9)], NEWEST, "b") == Changes(inserted=1, updated=1)
    assert table(harness, target) == [(0, "s0", 0), (1, "moved", 7), (2, "s0", 2), (3, "s1", 3), (9, "new", 9)]


def test_files_that_the_keys_cannot_meet_are_not_read(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1), (2, "new", 1)], NEWEST, "a")
    upsert(harness, target, [(50, "new", 1), (60, "new", 1)], NEWEST, "b")
    gone = list(Path(harness.locate(ORDERS)).glob("twice-a-*.parquet"))
    assert gone
    for path in gone:
        path.unlink()  # reading it would fail
    changes = upsert(harness, target, [(55, "new", 1), (60, "paid", 2)], NEWEST, "c")
    assert changes == Changes(inserted=1, updated=1)


def test_what_delta_refuses_is_reported_in_its_own_words(spark: Any, tmp_path: Path) -> None:
    public = DeltaHarness(spark, tmp_path, internal=False)
    target = public.target()
    prepare(target)
    upsert(public, target, [(1, "new", 1)], NEWEST, "a")
    sql(public, "ALTER TABLE {} ADD CONSTRAINT known CHECK (status <> 'bad')")
    staged = stage(public, target, [(2, "bad", 1)], NEWEST, "b")
    with pytest.raises(RunError, match=r"the commit failed: .*CHECK constraint known .*'bad'") as refused:
        commit(target, staged)
    assert "An error occurred while calling" not in str(refused.value)
    assert table(public, target) == [(1, "new", 1)]


# What Spark does with the plan


@pytest.mark.parametrize("rows", [[], [(1, "new", 1), (1, "paid", 2), (2, "new", 1)]])
def test_rows_are_counted_before_and_behind_the_shuffle(either: DeltaHarness, rows: list[Any]) -> None:
    from twice.engine.frames.observe import observe

    target = either.target()
    prepare(target)
    observed = observe(either.frame(target, COLUMNS, rows, 3), NEWEST.slices, ())
    staged = target.stage(ORDERS, observed.frame, plan_of(NEWEST), "a")
    counted = observed.read()[NEWEST.slices[0].label].rows
    assert counted == len(rows) == staged.rows + staged.deduplicated


# The public path


@pytest.mark.parametrize(
    "change",
    sample(UNUSUAL, of=UNUSUAL[:1]),
)
def test_an_unusual_table_is_merged_by_the_public_path(harness: DeltaHarness, change: str) -> None:
    target: Any = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1), (2, "new", 1)], NEWEST, "a")
    sql(harness, change)
    staged = stage(harness, target, [(1, "paid", 2), (3, "new", 1)], NEWEST, "b")
    assert staged.handle.folder is not None
    end = commit(target, staged)
    assert isinstance(end, Landed)
    assert end.changes == Changes(inserted=1, updated=1)
    assert upsert(harness, target, [(1, "paid", 2)], NEWEST, "c") == Changes(unchanged=1)
    assert table(harness, target) == [(1, "paid", 2), (2, "new", 1), (3, "new", 1)]
    assert list(generations(harness.target(), plan_of(NEWEST)).values()) == [3]
    left = [value for name, value in target._session.conf.getAll.items() if "txn" in name or "userMetadata" in name]
    assert left == []


def test_a_mark_can_be_reset_on_an_unusual_table(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare_events(target)
    append(harness, target, [ONE], 9, "a")
    sql(harness, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", EVENTS)
    assert isinstance(reset(target, 4, "b"), Landed)
    assert mark(harness.target()) == 4
    assert harness.rows(target.read(EVENTS)) == [ONE]


# Tokens that go back


def test_a_mark_set_back_is_read_with_and_without_the_checksum_file(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare_events(target)
    append(harness, target, [ONE], 9, "a")
    reset(target, 4, "b")
    assert mark(harness.target()) == 4
    for path in (Path(harness.locate(EVENTS)) / "_delta_log").glob("*.crc"):
        path.unlink()
    assert mark(harness.target()) == 4
    found = target.provenance(EVENTS, APP, 4)
    assert found is not None
    assert found.attempt == "b"


def test_rows_that_others_add_do_not_stop_an_append(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare_events(target)
    staged = target.stage(EVENTS, harness.frame(target, EVENT_COLUMNS, [ONE]), PLAN, "a")
    sql(harness, "INSERT INTO {} VALUES ('theirs', NULL)", EVENTS)
    assert isinstance(move(target, staged, 0, 5), Landed)
    assert [row[0] for row in harness.rows(target.read(EVENTS))] == ["click", "theirs"]


def test_a_new_table_of_a_deleting_merge_is_partitioned_by_its_slice(harness: DeltaHarness) -> None:
    layout = Layout(DAILY.held_in, ("order_id",), any_partitions=True)
    assert prepare(harness.target(), BY_DAY, layout).partitioned_by == "order_date"


@pytest.mark.long
def test_spare_files_that_cannot_be_deleted_take_no_publish_back(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    upsert(harness, target, [(1, "new", 1), (2, "new", 1)], NEWEST, "first")
    staged = stage(harness, target, [(1, "new", 1), (2, "paid", 2)], NEWEST, "second")  # one of them is nothing new

    def stick(point: Point | SendPoint) -> None:
        if point is Point.AFTER_COMMIT:
            for name in staged.files:  # what a file system refuses to delete
                at = Path(harness.locate(ORDERS)) / name
                at.unlink()
                (at / "in use").mkdir(parents=True)

    with armed(stick):
        end = commit(target, staged)
    assert isinstance(end, Landed)
    assert end.changes == Changes(updated=1, unchanged=1)
    assert all((Path(harness.locate(ORDERS)) / name).is_dir() for name in staged.files), "they were to be deleted"
    assert table(harness, target) == [(1, "new", 1), (2, "paid", 2)]
