"""What the commands about backfills say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twice.cli.backfill_text import print_end, print_plan, result_data
from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.backfill.result import BackfillResult, BackfillState, BatchState, Comparison, as_result

PLAN = BackfillPlan(
    "june",
    BackfillRequest("revenue", "2026-06-01", "2026-06-04", ("missing", "failed", "stale", "published"), restate=True),
    (
        PlannedBatch(1, "revenue", (PlannedSlice("2026-06-01", "failed", "its last attempt: rejected", 2),), "restate"),
        PlannedBatch(
            2,
            "revenue",
            tuple(PlannedSlice(f"2026-06-0{day}", "published", "same code, same inputs", 1) for day in (2, 3)),
            "restate",
        ),
        PlannedBatch(3, "revenue", (PlannedSlice("2026-06-04", "missing", "never published"),), "restate"),
    ),
)


def carried_out(state: BackfillState, *states: BatchState) -> BackfillResult:
    result = as_result(PLAN)
    slices = tuple(replace(slice_, state=of) for slice_, of in zip(result.slices, states, strict=True))
    return replace(result, state=state, slices=slices)


def test_a_plan_groups_slices_by_why_and_says_how_many_published_ones_are_computed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_plan(as_result(PLAN), stored=False)
    assert capsys.readouterr().out.splitlines() == [
        "backfill june: 4 slices (nothing is stored)",
        "  revenue[2026-06-01]  failed: its last attempt: rejected",
        "  revenue[2026-06-02..2026-06-03]  2 slices  published: same code, same inputs",
        "  revenue[2026-06-04]  missing: never published",
        "  3 published slices will be computed again",
        "next: the same command without --dry-run",
    ]


def test_the_end_names_what_failed_and_the_one_command_that_retries_only_that(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = BatchState.DONE
    result = carried_out(BackfillState.FINISHED, BatchState.FAILED, done, done, done)
    first, *others = result.slices
    failed = replace(first, error={"what": "audit rows failed"})
    changed = replace(others[0], comparison=Comparison(False, 5, 7, {"revenue": ("1.00", "2.00")}))
    same = replace(others[1], comparison=Comparison(True, 5, 5))
    print_end(replace(result, slices=(failed, changed, same, others[2])))
    assert capsys.readouterr().out.splitlines() == [
        "3 of 4 slices are done, 1 failed",
        "restated: 1 IDENTICAL, 1 CHANGED",
        "  revenue[2026-06-02] CHANGED: +2 rows, revenue 1.00 -> 2.00",
        "  failed: revenue[2026-06-01] audit rows failed",
        "next: twice backfill resume june   (retries only what failed)",
    ]


@pytest.mark.parametrize("state", [BackfillState.PAUSED, BackfillState.CANCELLED])
def test_a_worker_that_ends_because_somebody_stopped_the_backfill_says_so(
    capsys: pytest.CaptureFixture[str], state: BackfillState
) -> None:
    pending = BatchState.PENDING
    print_end(carried_out(state, BatchState.DONE, pending, pending, pending))
    assert capsys.readouterr().out.splitlines() == [
        f"1 of 4 slices are done; it was {state.value}",
        "next: twice backfill resume june   (continues with what is left)",
    ]


def test_the_json_of_a_slice_keeps_the_keys_that_programs_read() -> None:
    (first, *_) = result_data(as_result(PLAN))["slices"]
    assert list(first) == [
        *("task", "label", "standing", "why", "generation", "state", "outcome", "rows", "comparison", "error"),
    ]
    assert (first["standing"], first["state"]) == ("failed", "pending")


def test_the_old_name_of_a_slices_status_still_works_and_says_the_new_one() -> None:
    (first, *_) = as_result(PLAN).slices
    with pytest.warns(DeprecationWarning, match=r"SliceReport\.standing is now SliceReport\.status"):
        assert first.standing == first.status == "failed"
