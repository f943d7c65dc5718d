"""What names show, and what they do not."""

from __future__ import annotations

import pytest

from twice.lint.vocabulary import is_log, names_an_attempt


@pytest.mark.parametrize(
    "name", ["etl_log", "ops.job_history", "audit.runs", "job_runs_log", "pipeline_runs", "error_log"]
)
def test_a_table_about_the_pipelines_own_work_is_a_log(name: str) -> None:
    assert is_log(name)


@pytest.mark.parametrize(
    "name", ["raw.logs", "access_logs", "web_log", "server_metrics", "notifications", "order_history"]
)
def test_logs_and_metrics_that_are_the_data_are_no_log(name: str) -> None:
    assert not is_log(name)


def test_a_date_does_not_name_an_attempt() -> None:
    assert names_an_attempt("s3://lake/sales/run={run_id}/")
    assert not names_an_attempt("s3://lake/sales/ds={ds}/")
