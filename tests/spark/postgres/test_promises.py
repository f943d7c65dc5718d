"""PostgreSQL keeps its promises with Spark's frames too: those of the suite where frames matter, for every verb."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.contracts.append_suite import AppendSuite
from tests.contracts.postgres_harness import PostgresHarness
from tests.contracts.spark_frames import collected, frame_of
from tests.contracts.target_suite import Row, TargetSuite
from tests.contracts.upsert_suite import UpsertSuite

from twice.core.ports import Column, Target
from twice.targets.postgres.frames.spark import SparkFrames
from twice.targets.postgres.read.snapshot import Snapshots
from twice.targets.postgres.server.server import Server
from twice.targets.postgres.target import PostgresTarget


class SparkHarness(PostgresHarness):
    """Every target with a session of its own, as every run has one."""

    def __init__(self, url: str, spark: Any) -> None:
        super().__init__(url)
        self._spark = spark
        self._snapshots: list[Snapshots] = []

    def target(self) -> Target:
        from twice.engine.session.session import run_session

        server = Server("postgres", self.url, self.limits)
        self._snapshots.append(Snapshots(server))
        return PostgresTarget(server, SparkFrames(run_session(self._spark), 2), self._snapshots[-1])

    def frame(self, target: Any, columns: Sequence[Column], rows: Sequence[Row], parts: int = 0) -> Any:
        return frame_of(target._frames._session, columns, rows, parts)

    def rows(self, frame: Any) -> list[Row]:
        return collected(frame)

    def close(self) -> None:
        for each in self._snapshots:
            each.close()


class TestPostgresWithSpark:
    """Without Spark's frames test_postgres_target.py takes all of the suite."""

    left_out = frozenset(
        {"test_case", "test_crash", "test_survivor", "test_insert_only", "test_same_batch", "test_model"}
    )

    @pytest.fixture
    def harness(self, database: str, spark: Any) -> Iterator[SparkHarness]:
        harness = SparkHarness(database, spark)
        yield harness
        harness.close()

    log = AppendSuite.log

    test_drift = TargetSuite.test_staging_checks_the_columns_again
    test_case = TargetSuite.test_names_that_differ_by_case_are_the_same_column
    test_second_run = TargetSuite.test_the_second_run_replaces_the_first
    test_empty = TargetSuite.test_an_empty_result_clears_its_slice_and_only_it
    test_hours = TargetSuite.test_hours_are_utc_instants
    test_outside = TargetSuite.test_rows_outside_the_slice_are_refused_and_nothing_changes
    test_stage = TargetSuite.test_staged_rows_are_counted_readable_and_invisible
    test_discard = TargetSuite.test_discard_finds_the_files_of_an_attempt_that_died_in_its_stage
    test_crash = TargetSuite.test_a_crash_around_the_commit_publishes_all_or_nothing
    test_own_target = TargetSuite.test_a_task_that_read_its_own_target_does_not_publish_over_a_change
    test_batch = TargetSuite.test_several_slices_land_in_one_commit
    test_one_winner = TargetSuite.test_the_same_slice_at_once_has_one_winner
    test_upsert = UpsertSuite.test_new_rows_are_inserted_changed_ones_updated_and_the_rest_is_left
    test_same_batch = UpsertSuite.test_the_same_batch_again_rewrites_no_file_and_still_moves_its_token
    test_survivor = UpsertSuite.test_the_survivor_is_the_same_in_every_order_and_parallelism
    test_insert_only = UpsertSuite.test_insert_only_leaves_what_is_there_and_counts_what_differs
    test_delete_missing = UpsertSuite.test_delete_missing_deletes_inside_the_slice_only
    test_model = UpsertSuite.test_random_batches_give_what_all_their_rows_give_in_one
    test_append = AppendSuite.test_a_crashed_append_run_again_adds_its_rows_once
