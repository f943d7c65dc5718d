"""The fences around Delta's non-public classes: each one shown to hold."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.delta_harness import UNUSUAL, DeltaHarness
from tests.contracts.target_suite import (
    COLUMNS,
    DAILY,
    DAY,
    NEXT,
    REVENUE,
    commit,
    generations,
    layout_of,
    plan_of,
    prepare,
    publish,
    sale,
    table,
    zeros,
)
from tests.sample import sample

from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.ports import ChangedRange, Column, Foreign, Landed, Shape
from twice.core.scope import Daily, Hourly, Monthly
from twice.core.write import Layout, UpsertRows
from twice.engine.frames.observe import observe
from twice.errors import DeclarationError, RunError, SchemaDrift, StageLost, StageMismatch, TableChanged
from twice.targets.active_session import as_active_session
from twice.targets.delta.log.log import Log

OLD, NEW = sale("2026-06-09", "eu", "1.00"), sale("2026-06-09", "eu", "2.00")


@pytest.fixture
def harness(spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, internal=True)


def sql(harness: DeltaHarness, statement: str) -> list[Any]:
    target: Any = harness.target()
    rows: list[Any] = target._session.sql(statement.format(f"delta.`{harness.locate(REVENUE)}`")).collect()
    return rows


def operations(harness: DeltaHarness) -> list[str]:
    """Every commit's operation, oldest first."""
    found = sorted((Path(harness.locate(REVENUE)) / "_delta_log").glob("*.json"))
    return [json.loads(path.read_text().splitlines()[0])["commitInfo"]["operation"] for path in found]


# What was staged must still be there


@pytest.mark.parametrize("internal", sample([True, False], of=[True]))
def test_staged_files_that_are_gone_or_cut_short_are_never_published(
    spark: Any, tmp_path: Path, internal: bool
) -> None:
    """VACUUM, a disk of an executor's own, a person tidying up: whatever took them, the slice keeps its old rows."""
    harness = DeltaHarness(spark, tmp_path, internal)
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    version = target.published(REVENUE, ()).version
    rows = [sale("2026-06-09", f"r{at}", "1.00") for at in range(6)]
    for attempt, harm in (("gone", Path.unlink), ("cut", lambda path: path.write_bytes(path.read_bytes()[:40]))):
        staged = target.stage(REVENUE, harness.frame(target, COLUMNS, rows, 3), plan_of(DAY), attempt)
        harm(next(Path(path) for path in harness.leftovers(REVENUE, attempt) if path.endswith(".parquet")))
        with pytest.raises(StageLost, match="staged") as lost:
            commit(target, staged, generations(target, staged.plan))
        assert "Run the task again" in lost.value.fix
        assert target.published(REVENUE, ()).version == version
        target.discard(REVENUE, attempt, staged.plan.file_slices)
        assert not harness.leftovers(REVENUE, attempt)
    assert table(harness, target) == [OLD]
    assert isinstance(publish(harness, target, rows, DAY, attempt="again"), Landed)
    assert table(harness, target) == rows


# What may be written


@pytest.mark.parametrize(
    "change",
    sample(UNUSUAL, of=UNUSUAL[:1]),
)
def test_an_unusual_table_is_written_by_the_public_path(harness: DeltaHarness, change: str) -> None:
    target: Any = harness.target()
    prepare(target)
    publish(harness, target, [OLD, sale("2026-06-09", "us", "1.00")], DAY, attempt="a")
    sql(harness, change)
    assert target.one_slice_only(REVENUE) is not None
    staged = target.stage(REVENUE, harness.frame(target, COLUMNS, [NEW]), plan_of(DAY), "b")
    assert staged.handle.folder is not None
    assert isinstance(commit(target, staged, generations(target, staged.plan)), Landed)
    assert table(harness, target) == [NEW]
    assert not harness.leftovers(REVENUE, "b")  # its hidden copy is gone


def test_an_append_only_table_is_not_changed(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    sql(harness, "ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(RunError, match="The table is unchanged"):
        publish(harness, target, [NEW], DAY, attempt="b")
    assert table(harness, target) == [OLD]


def test_a_table_that_forgets_its_tokens_is_refused(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    sql(harness, "ALTER TABLE {} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 days')")
    with pytest.raises(DeclarationError, match="forgets its tokens") as refused:
        prepare(target)
    assert "UNSET TBLPROPERTIES" in refused.value.fix


def test_rows_deleted_by_a_deletion_vector_are_replaced_too(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    prepare(target)
    sql(harness, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    publish(harness, target, [OLD, sale("2026-06-09", "us", "1.00")], DAY, attempt="a")
    sql(harness, "DELETE FROM {} WHERE region = 'us'")
    assert target.one_slice_only(REVENUE) is None
    assert isinstance(publish(harness, target, [NEW], DAY, attempt="b"), Landed)
    assert table(harness, target) == [NEW]


def test_a_check_constraint_is_enforced_and_nothing_changes(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    prepare(target)
    sql(harness, "ALTER TABLE {} ADD CONSTRAINT positive CHECK (revenue > 0)")
    assert target.one_slice_only(REVENUE) is None
    with pytest.raises(Exception, match="positive"):
        publish(harness, target, [sale("2026-06-09", "eu", "-1.00")], DAY, attempt="a")
    assert table(harness, target) == []
    target.discard(REVENUE, "a", [DAY])
    assert not harness.leftovers(REVENUE, "a")


# Types


def test_an_up_cast_is_written_in_the_tables_own_type(harness: DeltaHarness) -> None:
    target = harness.target()
    columns = (COLUMNS[0], Column("n", "bigint"), Column("amount", "decimal(12,4)"))
    prepare(target, columns=columns)
    narrow = (COLUMNS[0], Column("n", "int"), Column("amount", "decimal(10,2)"))
    assert prepare(target, columns=narrow) == Shape(columns, "order_date")
    row = (date(2026, 6, 9), 7, Decimal("1.50"))
    publish(harness, target, [row], DAY, attempt="a", columns=narrow)
    assert table(harness, target) == [row]


def test_nested_fields_of_any_name_are_made_cast_and_read(harness: DeltaHarness) -> None:
    """Spark's own text of such a type cannot be read by Spark."""
    target: Any = harness.target()
    columns = (*COLUMNS, Column("agent", "struct<`user-agent`:string,`a-b`:array<struct<`1st`:bigint>>>"))
    nested = ("curl", [(1,)])
    for day, row in ((DAY, (*OLD, nested)), (NEXT, (*sale("2026-06-10", "eu", "1.00"), None))):
        given = columns if row[3] else (*COLUMNS, Column("agent", "void"))  # cast to the table's type
        into = target.prepare(REVENUE, Shape(given if day is NEXT else columns), layout_of(), False)
        staged = target.stage(REVENUE, harness.frame(target, given, [row]), plan_of(day), day.label, into=into)
        assert isinstance(commit(target, staged, zeros(day)), Landed)
    assert [tuple(row["agent"] or ()) for row in target.read(REVENUE).orderBy("order_date").collect()] == [
        ("curl", [(1,)]),
        (),
    ]


def test_a_decimal_never_enters_a_double_column(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target, columns=(*COLUMNS[:2], Column("revenue", "double")))
    with pytest.raises(SchemaDrift, match="revenue is decimal"):
        publish(harness, target, [OLD], DAY, attempt="a")
    assert table(harness, target) == []


def test_columns_changed_by_another_between_stage_and_commit_stop_it(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    staged = target.stage(REVENUE, harness.frame(target, COLUMNS, [NEW]), plan_of(DAY), "a")
    sql(harness, "ALTER TABLE {} ADD COLUMNS (tax int)")
    with pytest.raises(TableChanged, match="columns or constraints were changed"):
        commit(target, staged, generations(target, staged.plan))
    assert table(harness, target) == []


CHECKED = "ALTER TABLE {} ADD CONSTRAINT positive CHECK (revenue > 0)"
SET_BY_OTHERS = (
    "SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 20 days', 'department' = 'finance')"
)


@pytest.fixture(params=[True, False], ids=["internal", "public"])
def either(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> DeltaHarness:
    return DeltaHarness(spark, tmp_path, internal=request.param)


@pytest.mark.parametrize("evolve", sample([True, False], of=[True]))
def test_a_constraint_added_between_stage_and_commit_is_kept_and_holds_for_the_staged_rows(
    either: DeltaHarness, evolve: bool
) -> None:
    """They were written before it: another attempt is refused by the constraint itself."""
    target: Any = either.target()
    prepare(target)
    publish(either, target, [OLD], DAY, attempt="a")
    sql(either, "ALTER TABLE {} ADD CONSTRAINT known CHECK (region <> '')")  # the first one changes the protocol too
    columns = (*COLUMNS, Column("tax", "int")) if evolve else COLUMNS
    row = (*sale("2026-06-09", "eu", "-1.00"), *([1] if evolve else []))
    into = target.prepare(REVENUE, Shape(columns), layout_of(), evolve)
    staged = target.stage(REVENUE, either.frame(target, columns, [row]), plan_of(DAY), "b", into=into)
    sql(either, CHECKED)
    with pytest.raises(TableChanged, match="columns or constraints were changed"):
        commit(target, staged, generations(target, staged.plan))
    assert table(either, target) == [OLD]
    assert properties(either)["delta.constraints.positive"] == "revenue > 0"
    with pytest.raises(Exception, match="positive"):
        again = target.prepare(REVENUE, Shape(columns), layout_of(), evolve)
        staged = target.stage(REVENUE, either.frame(target, columns, [row]), plan_of(DAY), "c", into=again)
        commit(target, staged, generations(target, staged.plan))
    assert table(either, target) == [OLD]


@pytest.mark.parametrize("unchanged", sample([False, True], of=[False]))
def test_properties_set_between_stage_and_commit_stay_when_the_commit_adds_columns(
    either: DeltaHarness, unchanged: bool
) -> None:
    """The commit adds columns to the table as it finds it, not as it was when the run began; also where it changes no
    row."""
    target: Any = either.target()
    verb = UpsertRows((replace(DAY, bounds=None),), ("region",), None)
    prepare(target)
    publish(either, target, [OLD], DAY, attempt="a")
    columns = (*COLUMNS, Column("tax", "int"))
    row = (*OLD, None) if unchanged else (*NEW, 1)
    into = target.prepare(REVENUE, Shape(columns), Layout(key=("region",), any_partitions=True), True)
    plan = replace(plan_of(DAY), write=verb)
    staged = target.stage(REVENUE, either.frame(target, columns, [row]), plan, "b", into=into)
    sql(either, f"ALTER TABLE {{}} {SET_BY_OTHERS}")
    assert isinstance(commit(target, staged, generations(target, staged.plan)), Landed)
    assert table(either, target) == [row]
    found = properties(either)
    assert (found["delta.deletedFileRetentionDuration"], found["department"]) == ("interval 20 days", "finance")


def properties(harness: DeltaHarness) -> dict[str, str]:
    return {row.key: row.value for row in sql(harness, "SHOW TBLPROPERTIES {}")}


# Which files


def test_files_of_other_slices_handed_back_by_delta_stop_the_commit(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twice.targets.delta.log.transaction import Transaction

    target = harness.target()
    prepare(target)
    publish(harness, target, [sale("2026-06-10", "eu", "9.00")], NEXT, attempt="a")
    real = Transaction.files_in
    monkeypatch.setattr(Transaction, "files_in", lambda self, *_: real(self, None, None, None))
    with pytest.raises(StageMismatch, match="outside 2026-06-09"):
        publish(harness, target, [NEW], DAY, attempt="b")
    assert table(harness, target) == [sale("2026-06-10", "eu", "9.00")]


@pytest.mark.parametrize("name", sample(["a.b", "OrderDate", "größe"], of=["a.b"]))
def test_a_slice_column_of_any_name_selects_its_own_files(harness: DeltaHarness, name: str) -> None:
    target = harness.target()
    scope = Daily(name, start="2026-01-01")
    columns = (Column(name, "date"), Column("v", "int"))
    prepare(target, scope, columns)
    first, second = scope.slice_of("2026-06-09"), scope.slice_of("2026-06-10")
    publish(harness, target, [(date(2026, 6, 9), 1)], first, attempt="a", columns=columns)
    publish(harness, target, [(date(2026, 6, 10), 2)], second, attempt="b", columns=columns)
    assert isinstance(publish(harness, target, [(date(2026, 6, 9), 3)], first, attempt="c", columns=columns), Landed)
    assert table(harness, target) == [(date(2026, 6, 9), 3), (date(2026, 6, 10), 2)]
    target.stage(REVENUE, harness.frame(target, columns, [(date(2026, 6, 9), 4)]), plan_of(first), "d")
    assert target.discard(REVENUE, "d", [first]) >= 1


def test_rows_without_a_date_that_others_wrote_are_left_alone(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    prepare(target)
    sql(harness, "INSERT INTO {} VALUES (NULL, 'lost', 5.00)")
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    publish(harness, target, [NEW], DAY, attempt="b")
    rows = target.read(REVENUE).collect()
    assert sorted(row.region for row in rows) == ["eu", "lost"]
    assert {row.revenue for row in rows} == {Decimal("2.00"), Decimal("5.00")}


def test_a_batch_writes_few_files_into_each_slice(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    prepare(target)
    slices = tuple(DAILY.through(DAILY.slice_of("2026-03-01"), DAILY.slice_of("2026-03-20")))
    frame = target._session.sql(
        "SELECT date_add(DATE '2026-03-01', CAST(id % 20 AS INT)) order_date, 'eu' region, "
        "CAST(id AS DECIMAL(12,2)) revenue FROM range(0, 4000, 1, 8)"
    )
    gathered = observe(frame, slices, ()).frame
    staged = target.stage(REVENUE, gathered, plan_of(*slices), "a")
    per_slice = Counter(path.partition("/")[0] for path in staged.files)
    assert len(per_slice) == 20
    assert max(per_slice.values()) == 1
    assert set(staged.rows_by_slice.values()) == {200}


# The session


@pytest.fixture
def careless(spark: Any) -> Iterator[Any]:
    """A base session with a setting that must not reach a run: without statistics no manifest can be verified."""
    spark.conf.set("spark.databricks.delta.stats.collect", "false")
    yield spark
    spark.conf.unset("spark.databricks.delta.stats.collect")


def test_the_runs_own_session_writes_whichever_thread_calls(harness: DeltaHarness, careless: Any) -> None:
    target = harness.target()
    prepare(target)
    results: list[Any] = []
    frame = harness.frame(target, COLUMNS, [NEW])

    def run() -> None:
        sessions = careless._jvm.org.apache.spark.sql.SparkSession
        sessions.setActiveSession(careless._jsparkSession)
        staged = target.stage(REVENUE, frame, plan_of(DAY), "mine")
        results.append(staged.files)
        results.append(commit(target, staged, generations(target, staged.plan)))
        results.append(sessions.getActiveSession().get().equals(careless._jsparkSession))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    files, outcome, restored = results
    assert all("/twice-mine-part-" in path for path in files)
    assert isinstance(outcome, Landed)
    assert restored


def test_nothing_is_compacted_behind_the_runs_back(spark: Any, tmp_path: Path) -> None:
    # By the public path: on the internal one Delta hangs its compaction on the transaction that never commits.
    harness = DeltaHarness(spark, tmp_path, internal=False)
    target: Any = harness.target()
    prepare(target)
    sql(harness, "ALTER TABLE {} SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')")
    target._session.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "2")
    target._session.conf.set("spark.sql.files.maxPartitionBytes", "4096")  # one task, and so one file, per staged file
    frame = harness.frame(target, COLUMNS, [NEW] * 8).repartition(4)
    staged = target.stage(REVENUE, frame, plan_of(DAY), "a")
    commit(target, staged, generations(target, staged.plan))
    assert len(harness.files(REVENUE)) > 2
    assert "OPTIMIZE" not in operations(harness)


def test_the_commit_notes_what_it_did(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    publish(harness, target, [NEW], DAY, attempt="b")
    text = (Path(harness.locate(REVENUE)) / "_delta_log" / f"{2:020d}.json").read_text()
    info = json.loads(text.splitlines()[0])["commitInfo"]
    assert info["operation"] == "WRITE"
    assert "2026-06-09" in info["operationParameters"]["predicate"]
    assert json.loads(info["userMetadata"])["twice"]["attempt"] == "b"
    assert sum('"txn":' in line for line in text.splitlines()) == 1


@pytest.mark.parametrize("count", [4, 7, 9])
def test_the_operation_is_built_from_what_its_class_declares(count: int) -> None:
    from twice.targets.delta.log.transaction import operation_arguments

    assert operation_arguments(["mode", "by", "where", "note"], count, "none") == [
        *["mode", "by", "where", "note"],
        *["none"] * (count - 4),
    ]


def test_an_unknown_shape_of_the_operation_is_refused() -> None:
    from twice.targets.delta.log.transaction import operation_arguments

    with pytest.raises(NotImplementedError, match="5 parameters"):
        operation_arguments(["mode", "by", "where", "note"], 5, "none")


# Tables made by others, or half made


def test_a_folder_with_foreign_data_is_not_taken_over_nor_touched(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    folder = Path(harness.locate(REVENUE))
    target._session.range(3).write.parquet(str(folder))
    before = sorted(folder.rglob("*"))
    with pytest.raises(DeclarationError, match="holds Parquet files") as refused:
        target.prepare(REVENUE, Shape(COLUMNS), layout_of(), False)
    assert target.discard(REVENUE, "a", [DAY]) == 0
    assert sorted(folder.rglob("*")) == before
    # One of the ways out that it names.
    target._session.sql(f"CONVERT TO DELTA parquet.`{folder}`")
    assert "CONVERT TO DELTA" in refused.value.fix
    assert target.prepare(REVENUE, Shape((Column("id", "bigint"),)), Layout(), False).exists


def test_a_table_made_by_hand_is_used_as_it_is_and_never_recreated(harness: DeltaHarness) -> None:
    target = harness.target()
    sql(
        harness,
        "CREATE TABLE {} (order_date DATE COMMENT 'the day', region STRING, revenue DECIMAL(12,2)) USING delta"
        " PARTITIONED BY (order_date) COMMENT 'ours, by hand' TBLPROPERTIES ('team' = 'sales')",
    )
    with pytest.raises(SchemaDrift):
        target.prepare(REVENUE, Shape((Column("order_date", "date"),)), layout_of(), False)
    (before,) = sql(harness, "DESCRIBE DETAIL {}")
    publish(harness, target, [OLD], DAY, attempt="a")
    (after,) = sql(harness, "DESCRIBE DETAIL {}")
    kept = ("id", "description", "properties", "createdAt", "partitionColumns")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert table(harness, target) == [OLD]


def test_a_creator_that_was_killed_does_not_block_the_next(harness: DeltaHarness) -> None:
    (Path(harness.locate(REVENUE)) / "_delta_log").mkdir(parents=True)
    assert prepare(harness.target()) == Shape(COLUMNS, "order_date")


def test_a_table_deleted_and_made_again_holds_nothing_of_the_old(harness: DeltaHarness) -> None:
    import shutil

    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    shutil.rmtree(harness.locate(REVENUE))
    assert target.published(REVENUE, plan_of(DAY).token_names).version is None
    prepare(target)
    assert list(generations(target, plan_of(DAY)).values()) == [0]
    assert isinstance(publish(harness, target, [NEW], DAY, attempt="b"), Landed)
    assert table(harness, target) == [NEW]


def test_partition_values_off_the_boundary_are_refused(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    half = "SELECT TIMESTAMP '2026-06-09T13:30:00Z' seen_at, TIMESTAMP '2026-06-09T13:30:00Z' seen_hour"
    target._session.sql(half).write.format("delta").partitionBy("seen_hour").save(harness.locate(REVENUE))
    columns = (Column("seen_at", "timestamp"), Column("seen_hour", "timestamp"))
    with pytest.raises(DeclarationError, match="seen_hour = 2026-06-09 13:30"):
        prepare(target, Hourly("seen_at", start="2026-01-01T00"), columns)


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_a_day_in_a_monthly_tables_partitions_is_refused(harness: DeltaHarness, mapping: str) -> None:
    target: Any = harness.target()
    rows = "SELECT DATE '2026-06-09' order_date, DATE '2026-06-09' order_month"
    writer = target._session.sql(rows).write.format("delta").option("delta.columnMapping.mode", mapping)
    writer.partitionBy("order_month").save(harness.locate(REVENUE))
    columns = (Column("order_date", "date"), Column("order_month", "date"))
    with pytest.raises(DeclarationError, match="order_month = 2026-06-09"):
        prepare(target, Monthly("order_date", start="2026-01"), columns)


def test_a_slice_column_of_another_type_is_refused(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    rows = "SELECT TIMESTAMP '2026-06-09T13:00:00Z' seen_at, DATE '2026-06-09' seen_hour"
    target._session.sql(rows).write.format("delta").partitionBy("seen_hour").save(harness.locate(REVENUE))
    columns = (Column("seen_at", "timestamp"), Column("seen_hour", "date"))
    with pytest.raises(DeclarationError, match="of type date, and this scope needs timestamp"):
        prepare(target, Hourly("seen_at", start="2026-01-01T00"), columns)


# Leftovers and history


def test_leftovers_are_found_in_folders_with_escaped_names(harness: DeltaHarness) -> None:
    hourly = Hourly("seen_at", start="2026-01-01T00")
    columns = (Column("seen_at", "timestamp"), Column("seen_hour", "timestamp"))
    target = harness.target()
    prepare(target, hourly, columns)
    hour = datetime(2026, 6, 9, 13, tzinfo=timezone.utc)
    slice_ = hourly.slice_of("2026-06-09T13")
    with armed(crash_at(Point.IN_STAGE)), pytest.raises(Crash):
        target.stage(REVENUE, harness.frame(target, columns, [(hour, hour)]), plan_of(slice_), "dead")
    assert harness.leftovers(REVENUE, "dead")
    assert target.discard(REVENUE, "dead", [hourly.slice_of("2026-06-09T14")]) == 0
    assert target.discard(REVENUE, "dead", [slice_]) == 1
    assert not harness.leftovers(REVENUE, "dead")


def test_of_an_attempt_that_landed_only_files_without_a_version_are_discarded(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    (stray,) = Path(harness.locate(REVENUE)).rglob("twice-a-part-*.parquet")
    twin = stray.with_name(stray.name.replace("part-", "part-9"))
    twin.write_bytes(stray.read_bytes())
    publish(harness, target, [NEW], DAY, attempt="b")
    assert target.discard(REVENUE, "a", [DAY]) == 1
    assert stray.exists()
    assert not twin.exists()


def test_a_commit_older_than_the_recent_ones_is_found_by_one_search(
    harness: DeltaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twice.targets.delta.log import commits

    monkeypatch.setattr(commits, "RECENT", 1)
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    publish(harness, target, [], NEXT, attempt="b")
    publish(harness, target, [NEW], DAY, attempt="c")
    app = plan_of(DAY).token_names[0]
    found = [target.provenance(REVENUE, app, generation) for generation in (1, 2)]
    assert [note and note.attempt for note in found] == ["a", "c"]


def test_provenance_ends_where_the_log_was_cleaned_up(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    publish(harness, target, [NEW], DAY, attempt="b")
    with as_active_session(target._session):
        Log(target._session, harness.locate(REVENUE))._log.checkpoint()
    for version in (0, 1):
        (Path(harness.locate(REVENUE)) / "_delta_log" / f"{version:020d}.json").unlink()
    app = plan_of(DAY).token_names[0]
    assert target.provenance(REVENUE, app, 1) is None
    assert target.provenance(REVENUE, app, 2) is not None


@pytest.mark.long
def test_what_others_did_is_found_however_many_commits_came_after_it(harness: DeltaHarness) -> None:
    """The log is read as far back as it goes, and what it no longer holds is reported as missing."""
    target: Any = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    sql(harness, "DELETE FROM {}")
    publish(harness, target, [sale("2026-06-10", "eu", "1.00")], NEXT, attempt="b")
    log = Path(harness.locate(REVENUE)) / "_delta_log"
    ours = (log / f"{3:020d}.json").read_text().splitlines()[0]
    for version in range(4, 130):
        (log / f"{version:020d}.json").write_text(f"{ours}\n")
    fresh = harness.target()
    note = fresh.provenance(REVENUE, plan_of(DAY).token_names[0], 1)
    assert note is not None
    assert note.version == 1
    assert fresh.foreign(REVENUE, 1, [DAY]) == (Foreign(2, "DELETE"),)
    assert fresh.foreign(REVENUE, 1, [NEXT]) == ()
    assert fresh.foreign(REVENUE, 2, [DAY]) == ()
    with as_active_session(target._session):
        Log(target._session, harness.locate(REVENUE))._log.checkpoint()
    for version in range(4):
        (log / f"{version:020d}.json").unlink()
    assert harness.target().foreign(REVENUE, 1, [DAY]) == (Foreign(3, "forgotten", forgotten=True),)


@pytest.mark.parametrize("mark", sample(["\u2028", "\u2029", "\u0085"], of=["\u2028"]))
def test_text_that_some_take_for_the_end_of_a_line_hides_no_commit(harness: DeltaHarness, mark: str) -> None:
    """Delta writes such characters into the statistics of its files as they are."""
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    sql(harness, f"INSERT INTO {{}} VALUES (DATE '2026-06-09', 'x{mark}y', 1.00)")
    assert target.foreign(REVENUE, 1, [DAY]) == (Foreign(2, "WRITE"),)
    assert target.foreign(REVENUE, 1, [NEXT]) == ()
    found = target.touched(REVENUE, 1, "order_date")
    assert found is not None
    assert found.spans == (ChangedRange(2, date(2026, 6, 9), date(2026, 6, 9)),)


@pytest.mark.long
def test_a_restored_table_is_reported_for_every_slice_that_owns_no_rows(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    publish(harness, target, [NEW], DAY, attempt="b")
    sql(harness, "RESTORE TABLE {} TO VERSION AS OF 1")
    assert target.foreign(REVENUE, 2, [replace(DAY, bounds=None)]) == (Foreign(3, "RESTORE"),)


MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


@pytest.mark.long
def test_what_others_did_is_found_by_slice_where_the_log_has_other_names_for_columns(harness: DeltaHarness) -> None:
    target: Any = harness.target()
    columns = "order_date DATE, region STRING, revenue DECIMAL(12,2), paid_on DATE"
    target._session.sql(
        f"CREATE TABLE delta.`{harness.locate(REVENUE)}` ({columns}) USING delta PARTITIONED BY (order_date) {MAPPED}"
    )
    named = (*COLUMNS, Column("paid_on", "date"))
    paid = date(2026, 6, 20)
    publish(harness, target, [(*OLD, paid), (*sale("2026-06-09", "us", "1.00"), paid)], DAY, attempt="a", columns=named)
    sql(harness, "DELETE FROM {} WHERE region = 'us'")
    sql(harness, "INSERT INTO {} VALUES (DATE '2026-06-10', 'x', 1.00, DATE '2026-06-21')")
    assert target.foreign(REVENUE, 1, [DAY]) == (Foreign(2, "DELETE"),)
    assert target.foreign(REVENUE, 1, [NEXT]) == (Foreign(3, "WRITE"),)
    found = {by: target.touched(REVENUE, 1, by).spans for by in ("order_date", "paid_on")}
    assert [(span.version, span.low) for span in found["order_date"]] == [(2, DAY.start.date()), (3, NEXT.start.date())]
    assert found["paid_on"][-1] == ChangedRange(3, date(2026, 6, 21), date(2026, 6, 21))
    prepare(target, columns=named)


def test_a_file_that_does_not_show_its_partition_may_hold_any_row(harness: DeltaHarness) -> None:
    target = harness.target()
    prepare(target)
    publish(harness, target, [OLD], DAY, attempt="a")
    sql(harness, "INSERT INTO {} VALUES (DATE '2026-06-09', 'x', 1.00)")
    commit_file = Path(harness.locate(REVENUE)) / "_delta_log" / f"{2:020d}.json"
    text = commit_file.read_text()
    assert text.count('"partitionValues":{"order_date":"2026-06-09"}') == 1
    commit_file.write_text(text.replace('"partitionValues":{"order_date":"2026-06-09"}', '"partitionValues":{}'))
    for slice_ in (DAY, NEXT):
        assert target.foreign(REVENUE, 1, [slice_]) == (Foreign(2, "WRITE"),)
    found = target.touched(REVENUE, 1, "order_date")
    assert found is not None
    assert found.spans == (ChangedRange(2),)


@pytest.mark.parametrize("by", ["PARTITIONED BY (order_date)", ""])
def test_leftovers_are_found_where_the_log_has_other_names_for_columns(harness: DeltaHarness, by: str) -> None:
    target: Any = harness.target()
    columns = "order_date DATE, region STRING, revenue DECIMAL(12,2)"
    target._session.sql(f"CREATE TABLE delta.`{harness.locate(REVENUE)}` ({columns}) USING delta {by} {MAPPED}")
    whole = replace(DAY, bounds=None)
    publish(harness, target, [OLD], DAY if by else whole, attempt="a")
    (data,) = Path(harness.locate(REVENUE)).rglob("twice-a-part-*.parquet")
    twin = data.with_name(data.name.replace("part-", "part-9"))
    twin.write_bytes(data.read_bytes())
    assert "=" not in data.parent.name  # Delta's folders for such tables do not name a partition
    assert target.discard(REVENUE, "a", [DAY if by else whole]) == 1
    assert data.exists()
    assert not twin.exists()
