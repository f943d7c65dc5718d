"""How a backfill's progress is shown."""

from __future__ import annotations

import io
import json
import re
import threading
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from rich.console import Console

from twice.cli.hints import hinting
from twice.cli.progress import JsonLines, Lines, Live, duration
from twice.core.backfill.plan import BackfillRequest, PlannedSlice
from twice.core.backfill.result import BackfillRecord, BackfillState, BatchClaim, BatchState, SliceEnd
from twice.core.hints import Hints
from twice.errors import RunError, TwiceError
from twice.runtime.backfill.worker import Event

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


def test_on_a_terminal_the_table_shows_done_speed_time_left_workers_and_failures() -> None:
    now, shown = [100.0], io.StringIO()
    known = [(RECORD, 0)]
    console = Console(file=shown, width=72, force_terminal=True, color_system=None)
    with Live(lambda: known[0], console, clock=lambda: now[0]) as live:
        now[0] += 10
        done = {BatchState.DONE: 60, BatchState.CLAIMED: 5, BatchState.PENDING: 298, BatchState.FAILED: 2}
        known[0] = (replace(RECORD, slices=done, rows=120_000), 3)
        live(DONE)
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue()).split("backfill year: running")[-1]
    cells = [cell.strip() for line in last.splitlines() if "60/365" in line for cell in re.split("[│┃]", line)]
    assert cells[1:-1] == ["60/365", "12,000", "0:50", "3", "2"]
    assert "revenue[2026-01-01..2026-01-02]: published, 2,000 rows, 1.5 s" in last
    assert all(len(line) <= 72 for line in last.splitlines())


def test_while_no_slice_is_recorded_nothing_is_promised_and_a_label_is_no_markup() -> None:
    shown = io.StringIO()
    with Live(lambda: (RECORD, 1), Console(file=shown, width=72, force_terminal=True, color_system=None)) as live:
        live(replace(DONE, claim=replace(CLAIM, slices=(PlannedSlice("all", "missing", ""),))))
    assert "revenue[all]: published" in shown.getvalue()
    assert re.search(r"0/365 │\s+- │\s+- │\s+1 │\s+0 ", shown.getvalue())


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
