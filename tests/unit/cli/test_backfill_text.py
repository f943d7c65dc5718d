"""What the commands about backfills say."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from twice.cli.backfill_text import print_end, print_plan, print_records, result_data
from twice.cli.terminal import Screen
from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedBatch, PlannedSlice
from twice.core.backfill.result import BackfillRecord, BackfillResult, BackfillState, BatchState, Comparison, as_result

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


LONG = "orders_of_all_the_shops_2026-06-01_2026-06-04"


def records() -> list[tuple[BackfillRecord, int]]:
    counts = {BatchState.DONE: 3, BatchState.FAILED: 1}
    record = BackfillRecord(LONG, PLAN.request, BackfillState.FINISHED, datetime(2026, 6, 9), counts)
    return [(record, 0), (replace(record, name="june", state=BackfillState.RUNNING), 0)]


def test_the_list_of_backfills_is_a_line_each_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_records(records())
    assert capsys.readouterr().out.splitlines() == [
        f"{LONG}  finished  3/4 slices, 1 failed",
        "june  3/4 slices, 1 failed, no worker is running it; next: twice backfill resume june",
    ]


def test_the_list_of_backfills_is_a_table_that_fits_on_a_terminal_with_every_name_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twice.cli.backfill_text.on_terminal", lambda: True)
    monkeypatch.setattr("twice.cli.terminal.screen_of", lambda _: Screen(80))
    print_records(records())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines == [
        f"{'backfill'.ljust(len(LONG))}  state      slices",
        f"{LONG}  finished   3/4, 1 failed",
        f"{'june'.ljust(len(LONG))}  no worker  3/4, 1 failed",
        "next: twice backfill resume june",
    ]
