"""Delta keeps every promise, by the internal path and by the public one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.append_suite import AppendSuite
from tests.contracts.delta_harness import DeltaHarness
from tests.contracts.target_suite import TargetSuite
from tests.contracts.upsert_suite import UpsertSuite


class TestDeltaInternal(TargetSuite, UpsertSuite, AppendSuite):
    # test_every_strategy.py crashes appends and merges on Delta too, and ends them in other ways.
    left_out = frozenset(
        {
            "test_a_crashed_append_run_again_adds_its_rows_once",
            "test_a_crashed_upsert_run_again_gives_the_table_of_one_run",
        }
    )

    @pytest.fixture
    def harness(self, spark: Any, tmp_path: Path) -> DeltaHarness:
        return DeltaHarness(spark, tmp_path, internal=True)


class TestDeltaPublic(TargetSuite, UpsertSuite, AppendSuite):
    """The way round for tables that the internal path refuses. Each of its commits takes several Spark jobs, so that
    the whole suite takes as long as all other contracts: `make test` has one test of each of its own steps."""

    sampled = frozenset(
        {
            "test_the_first_publish_makes_the_table_with_its_rows_and_its_token",
            "test_a_first_attempt_that_is_given_up_leaves_no_table_and_binds_nobody",
            "test_new_columns_are_published_with_the_rows_or_not_at_all",
            "test_the_second_run_replaces_the_first",
            "test_rows_outside_the_slice_are_refused_and_nothing_changes",
            "test_discard_finds_the_files_of_an_attempt_that_died_in_its_stage",
            "test_a_wrong_expected_generation_is_refused",
            "test_a_watched_token_that_moved_stops_the_commit",
            "test_of_two_that_move_a_token_that_both_watch_one_lands_and_the_other_may_follow",
            "test_a_watched_token_that_moved_stops_the_upsert",
            "test_a_crash_around_the_commit_publishes_all_or_nothing",
            "test_a_task_that_read_its_own_target_does_not_publish_over_a_change",
            "test_the_same_slice_at_once_has_one_winner",
            "test_new_rows_are_inserted_changed_ones_updated_and_the_rest_is_left",
            "test_two_at_once_on_one_token_have_one_winner",
            "test_a_path_that_cannot_compare_and_swap_refuses_them",
        }
    )

    @pytest.fixture
    def harness(self, spark: Any, tmp_path: Path) -> DeltaHarness:
        return DeltaHarness(spark, tmp_path, internal=False)


def test_every_test_that_is_named_here_is_there() -> None:
    named = TestDeltaPublic.sampled | TestDeltaInternal.left_out
    assert [name for name in sorted(named) if not hasattr(TestDeltaPublic, name)] == []
