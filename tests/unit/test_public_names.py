"""What a user may import, and nothing else."""

from __future__ import annotations

import pytest

import twice


def test_the_public_names_are_exactly_these() -> None:
    assert twice.__all__ == [
        *("BackfillResult", "Daily", "EffectRefused", "Every", "Hourly", "Inbox", "Monthly", "Outcome", "Policy"),
        *("Result", "Retry", "RunResult", "Since", "TwiceError", "Whole", "WorkQueue", "append_once"),
        *("assert_identical", "audit"),
        *("backfill", "call", "days", "email", "hours", "insert_new", "merge", "prove", "read", "replace"),
        *("session", "slack", "sql_task", "stable_row_hash"),
        *("surrogate_key", "task", "webhook"),
    ]
    assert all(hasattr(twice, name) for name in twice.__all__)


@pytest.mark.parametrize("name", twice.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert (getattr(twice, name).__doc__ or "").strip()
