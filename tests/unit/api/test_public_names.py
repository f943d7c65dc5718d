"""What a user may import, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import twice

from .public_types import reachable


def test_the_public_names_are_exactly_these() -> None:
    assert twice.__all__ == [
        *("Again", "AttemptRecord", "AttemptState", "Audit", "AuditKind", "AuditResult", "BackfillRequest"),
        *("BackfillResult", "BackfillState", "BatchSize", "BatchState", "Cause", "Changes", "Comparison"),
        *("Daily", "DeclaredTask", "Difference", "Effect", "EffectBody", "EffectEnd", "EffectKind", "EffectRefused"),
        *("EffectState", "EffectText", "Empty", "ErrorMatch", "Every", "Explanation", "FileFormat", "Files"),
        *("Handler", "History", "Hourly"),
        *("Inbox", "Input", "InputRecord", "Intention", "Item", "ItemStatus", "Kind", "Leaf", "MergeOrder", "Missing"),
        *("Monthly",),
        *(
            "NullKeys",
            "Outcome",
            "Param",
            "ParamKind",
            "Policy",
            "Probe",
            "Proof",
            "ProofRecord",
            "PublishedSlice",
            "Read",
        ),
        *("RecoverResult", "Recovered", "Rerun", "Retry", "RetryResult", "RowPair", "RunAllResult", "RunRecord"),
        *("RunResult",),
        *(
            "Scope",
            "Severity",
            "SideEffect",
            "Since",
            "SliceRecord",
            "SliceReport",
            "SliceResult",
            "SliceStatus",
            "StaleSlice",
            "Status",
            "StatusChoice",
        ),
        *("Strategy", "Suspicion", "TableName", "Task", "TaskStatus", "Trial", "TrialResult", "TwiceError", "Whole"),
        *("WorkQueue",),
        *(
            "Worked",
            "append_once",
            "assert_identical",
            "audit",
            "backfill",
            "call",
            "days",
            "email",
            "errors",
            "history",
        ),
        *(
            "hours",
            "insert_new",
            "merge",
            "param",
            "plan",
            "prove",
            "prove_job",
            "read",
            "recover",
            "replace",
            "restate",
        ),
        *(
            "retry",
            "run",
            "run_all",
            "session",
            "slack",
            "sql_task",
            "stable_row_hash",
            "status",
            "surrogate_key",
            "task",
        ),
        *("webhook",),
    ]
    assert all(hasattr(twice, name) for name in twice.__all__)
    assert set(twice.__all__) <= set(dir(twice))


@pytest.mark.parametrize("name", twice.__all__)
def test_every_type_that_a_public_name_leads_to_is_public(name: str) -> None:
    found = reachable(getattr(twice, name))
    assert [each for each, value in found.items() if getattr(twice, each, None) != value] == []
    assert set(found) <= set(twice.__all__)


def test_types_are_found_in_signatures_fields_bases_and_aliases() -> None:
    """So that the test above can fail."""
    assert {"RunResult", "Task", "SliceResult", "AuditResult", "Severity", "TableName"} <= set(reachable(twice.run))
    assert {"SliceStatus", "StatusChoice", "BatchSize", "BackfillResult", "Comparison"} <= set(
        reachable(twice.backfill)
    )
    assert {"AttemptRecord", "Kind", "InputRecord"} <= set(reachable(twice.History))
    assert {"RunResult", "Outcome"} <= set(reachable(twice.RetryResult))
    assert {"Daily", "Since"} <= set(reachable(twice.Scope))
    assert {"PublishedSlice"} <= set(reachable(twice.EffectBody))
    assert {"Audit", "Severity"} <= set(reachable(twice.audit))
    assert {"Handler", "Item"} <= set(reachable(twice.WorkQueue))


def test_importing_twice_loads_neither_spark_nor_a_database_library() -> None:
    code = "import sys, twice; print([name for name in ('pyspark', 'sqlalchemy', 'sqlglot') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_old_name_of_a_published_slice_still_works_and_says_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"twice\.Result is now twice\.PublishedSlice"):
        assert twice.Result is twice.PublishedSlice


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'twice' has no attribute 'nothing'"):
        twice.nothing  # noqa: B018
