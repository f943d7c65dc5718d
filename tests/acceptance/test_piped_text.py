"""What scripts read is a contract: in a pipe, every line of these commands is what it was, whatever a terminal gets.

The text is in piped.txt. It was written by the `twice` from before there was progress; a line that comes on purpose is
added there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Shop

EXPECTED = Path(__file__).with_name("piped.txt")
TASK = "revenue_daily"
CALLS = (
    f"plan {TASK} --date 2026-06-09",
    f"run {TASK} --date 2026-06-09",
    f"run {TASK} --date 2026-06-09",
    f"restate {TASK} --date 2026-06-09",
    f"run {TASK} --date 2026-06-11",
    "run --all --date 2026-06-09",
    f"retry {TASK} --date 2026-06-11",
    f"history {TASK} --date 2026-06-09",
    f"history {TASK} --date 2026-06-11 --limit 1",
    f"backfill {TASK} --from 2026-06-09 --to 2026-06-11 --only missing,failed --dry-run",
    f"backfill {TASK} --from 2026-06-09 --to 2026-06-11",
    f"backfill show {TASK}_2026-06-09_2026-06-11",
    "backfill list",
    "recover",
    "ledger check",
    "effects list",
)
HIDDEN = (
    (r"\b[0-9a-f]{32}\b", "FINGERPRINT"),
    (r"attempt [0-9a-f]{8}", "attempt ID"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "MOMENT"),
    (r"by \S+, fence", "by HOLDER, fence"),
    (r"\d+\.\d s\b", "N s"),
    (r"(plan|claim|look|compute|stage|audit|publish) \d+\.\d\d", r"\1 N"),
    (r"--project \S+", "--project FOLDER"),
    (r"file:\S+/warehouse", "WAREHOUSE"),
)


@pytest.mark.spark
def test_in_a_pipe_every_line_is_what_it_was(stocked: Shop) -> None:
    parts = []
    for call in CALLS:
        answer = stocked.call(*call.split())
        parts.append(f"$ twice {call}\n{answer.out}{answer.err}exit {answer.code}\n")
    text = "\n".join(parts)
    for pattern, name in HIDDEN:
        text = re.sub(pattern, name, text)
    assert text == EXPECTED.read_text(encoding="utf-8")
