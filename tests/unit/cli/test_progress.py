"""How a backfill's progress is shown."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from twice.cli.display import duration
from twice.cli.hints import hinting
from twice.cli.progress import JsonLines, Lines, Live
from twice.cli.terminal import Screen, wide
from twice.core.backfill.plan import BackfillRequest, PlannedSlice
from twice.core.backfill.result import BackfillRecord, BackfillState, BatchClaim, BatchState, SliceEnd
from twice.core.hints import Hints
from twice.errors import RunError, TwiceError
from twice.runtime.backfill.worker import Event

SCREEN = Screen(80, letters=True)
DAYS = ("2026-01-01", "2026-01-02")
RECORD = BackfillRecord(
    "year",
    BackfillRequest("revenue", "2026-01-01", "2026-12-31"),
    BackfillState.RUNNING,
    datetime(2026, 6, 9, tzinfo=timezone.utc),
    {BatchState.PENDING: 365},
)
CLAIM = BatchClaim("year", 1, 1, "revenue", tuple(PlannedSlice(day, "missing", "") for day in DAYS), "run", True)
DONE = Event("done", CLAIM, 1.5, tuple(SliceEnd(day, "published", 1000) for day in DAYS))
BROKEN = RunError("the table is full", where="revenue[2026-01-01]")


def test_on_a_terminal_a_few_lines_show_done_speed_time_left_workers_failures_and_the_last_batch() -> None:
    now = [100.0]
    done = {BatchState.DONE: 60, BatchState.CLAIMED: 5, BatchState.PENDING: 298, BatchState.FAILED: 2}
    live = Live(RECORD, lambda: (replace(RECORD, slices=done, rows=120_000), 3), clock=lambda: now[0])
    now[0] += 10
    live(DONE)
    assert live.lines(SCREEN) == [
        f"backfill year: running{' ' * 53}0:10",
        "━━────────────  60 of 365 slices, 12,000 rows/s, 0:50 left, 3 workers, 2 failed",
        "✓ revenue[2026-01-01..2026-01-02]: published, 2,000 rows, 1.5 s",
    ]


def test_while_no_slice_is_recorded_nothing_is_promised() -> None:
    figures = Live(RECORD, lambda: (RECORD, 1)).lines(SCREEN)[1]
    assert figures.endswith("0 of 365 slices, 1 worker, 0 failed")


def test_the_ledger_is_asked_once_a_second_and_when_a_batch_has_ended() -> None:
    now, asked = [0.0], list[float]()

    def look() -> tuple[BackfillRecord, int]:
        asked.append(now[0])
        return RECORD, 1

    live = Live(RECORD, look, clock=lambda: now[0])
    for now[0] in (0.0, 0.5, 1.1, 1.2):
        live.lines(SCREEN)
    live(DONE)
    live.lines(SCREEN)
    assert asked == [0.0, 1.1, 1.2]


def test_a_ledger_that_does_not_answer_leaves_what_was_known() -> None:
    def look() -> tuple[BackfillRecord, int]:
        raise RunError("the ledger is away")

    assert "0 of 365 slices" in Live(RECORD, look).lines(SCREEN)[1]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_longer_than_the_terminal_however_long_names_and_errors_are(width: int) -> None:
    name = "a_backfill_with_a_name_that_is_much_longer_than_anybody_would_write_it_2026-01-01_2026-12-31"
    record = replace(RECORD, name=name, slices={BatchState.DONE: 1_234_567, BatchState.FAILED: 1_000_000}, rows=10**12)
    live = Live(replace(RECORD, name=name), lambda: (record, 64))
    live(Event("failed", replace(CLAIM, task="t" * 70), 1.0, error=RunError("broken\n" * 30 + "日本" * 40)))
    lines = live.lines(Screen(width, colours=True, letters=True))
    assert len(lines) == 3
    assert all(wide(line) < width and "\n" not in line for line in lines)


def test_in_a_pipe_each_batch_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(RECORD)
    lines(DONE)
    lines(Event("split", CLAIM, 1.0, error=BROKEN))
    lines(Event("failed", replace(CLAIM, slices=CLAIM.slices[:1]), 1.0, error=BROKEN))
    assert capsys.readouterr().out.splitlines() == [
        "revenue[2026-01-01..2026-01-02]: published, 2,000 rows, 1.5 s (2/365)",
        "revenue[2026-01-01..2026-01-02]: failed, split in two to find out where: the table is full (2/365)",
        "revenue[2026-01-01]: FAILED: the table is full (2/365)",
    ]


def test_for_programs_each_slice_is_an_object_with_the_schemas_version(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines()(DONE)
    JsonLines()(Event("failed", CLAIM, 1.0, error=BROKEN))
    first, second, failed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["label"], second["label"], first["rows"], first["event"]) == (*DAYS, 1000, "done")
    assert (failed["labels"], failed["error"]["what"]) == (list(DAYS), "the table is full")
    assert {first["schema_version"], failed["schema_version"]} == {1}


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3661, "1:01:01")])
def test_a_duration_is_shown_as_a_clock_does(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_hint_of_another_thread_names_the_profile_that_the_command_was_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with hinting(Hints(" --profile prod")):
        write = JsonLines()
    failed = Event("failed", CLAIM, 1.0, error=TwiceError("broken", fix="twice retry --failed"))
    thread = threading.Thread(target=write, args=(failed,))
    thread.start()
    thread.join()
    assert json.loads(capsys.readouterr().out)["error"]["fix"] == "twice retry --profile prod --failed"
