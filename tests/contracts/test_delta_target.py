"""Delta keeps every promise, by the internal path and by the public one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.append_suite import AppendSuite
from tests.contracts.delta_harness import DeltaHarness
from tests.contracts.exchange_suite import ExchangeSuite
from tests.contracts.target_suite import TargetSuite
from tests.contracts.upsert_suite import UpsertSuite


class TestDeltaInternal(TargetSuite, UpsertSuite, AppendSuite, ExchangeSuite):
    # test_every_strategy.py crashes appends and merges on Delta too, and ends them in other ways; and
    # test_rebuild_on_delta.py rebuilds. Which of several rows stays is shown by random batches.
    left_out = frozenset(
        {
            "test_a_crashed_exchange_left_the_old_table_or_the_new_one",
            "test_a_side_table_that_was_filled_further_is_taken_as_it_was_planned_or_not_at_all",
            "test_a_watched_token_that_moved_stops_the_exchange",
            "test_what_a_given_up_exchange_has_staged_is_deleted_and_the_side_table_stays",
            "test_a_crashed_append_run_again_adds_its_rows_once",
            "test_a_crashed_upsert_run_again_gives_the_table_of_one_run",
            "test_the_exchanged_table_is_published_to_as_any_other",
            "test_a_slice_that_was_published_meanwhile_stops_the_exchange",
            "test_tokens_beside_those_of_the_slices_are_moved_with_them",
            "test_a_table_may_get_another_layout",
            "test_equally_new_rows_give_one_table_whatever_order_they_come_in",
            "test_a_row_older_than_another_slices_gives_way_is_counted_and_leaves_its_commit_without_inputs",
            "test_content_decides_between_equally_new_rows_of_one_slice_also_where_missing_ones_go",
            "test_a_correction_wins_its_ties_and_still_no_newer_row_is_displaced",
            "test_ties_are_counted_in_the_batch_and_with_the_table_and_only_where_rows_differ",
            "test_an_old_file_replayed_late_changes_nothing",
            "test_a_mark_that_says_its_kind_follows_one_that_was_counted",
            "test_slices_out_of_order_leave_the_newest_rows",
            "test_evolve_adds_a_new_column_and_old_rows_have_null_in_it",
            "test_delete_missing_on_the_whole_table_deletes_everywhere",
            "test_without_newest_by_the_last_run_wins",
            "test_a_row_without_a_stamp_is_older_than_everything",
            "test_an_empty_batch_changes_nothing_and_moves_the_token",
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
            "test_new_columns_are_published_with_the_rows_or_not_at_all",
            "test_rows_outside_the_slice_are_refused_and_nothing_changes",
            "test_discard_finds_the_files_of_an_attempt_that_died_in_its_stage",
            "test_a_wrong_expected_generation_is_refused",
            "test_a_watched_token_that_moved_stops_the_commit",
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
    assert [name for name in sorted(TestDeltaPublic.sampled) if not hasattr(TestDeltaPublic, name)] == []
    assert [name for name in sorted(TestDeltaInternal.left_out) if not hasattr(TestDeltaInternal, name)] == []
