"""Ctrl-C and SIGTERM while a backfill is running, sent to a real process; and the table it draws on a real terminal."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.processes.command import ROOT, command

from twice.core.backfill.result import BatchState
from twice.ledgers.ledger import Ledger


def start(ledger: str) -> subprocess.Popen[str]:
    """A backfill of three slices in a process of its own. It says `in hand` when the second is computed, and is then
    computing until it reads a line."""
    return subprocess.Popen(
        command("interrupted_process", ledger),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until(stream: Iterable[str], words: str) -> None:
    for line in stream:
        if words in line:
            return
    raise AssertionError(f"the process ended without saying {words!r}")


@pytest.mark.parametrize("presses", [1, 2])
def test_the_first_ctrl_c_finishes_the_slice_in_hand_and_the_second_gives_it_back(tmp_path: Path, presses: int) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with start(url) as process:
        assert process.stderr is not None
        until(process.stderr, "in hand")
        os.kill(process.pid, signal.SIGINT)
        until(process.stderr, "press Ctrl-C again")
        if presses == 2:
            os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate("go on\n", timeout=30)
    assert process.returncode == 130, err
    ledger = Ledger.open(url)
    record = ledger.backfills.record("three")
    assert record is not None
    assert record.slices == {BatchState.DONE: 3 - presses, BatchState.PENDING: presses}, out
    assert not ledger.open_attempts()
    ledger.close()


def test_sigterm_gives_the_slice_in_hand_back_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with start(url) as process:
        assert process.stderr is not None
        until(process.stderr, "in hand")
        os.kill(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 143, err
    assert "revenue[2026-01-02]: interrupted. The table is unchanged." in err
    ledger = Ledger.open(url)
    record = ledger.backfills.record("three")
    assert record is not None
    assert record.slices == {BatchState.DONE: 1, BatchState.PENDING: 2}, out
    assert not ledger.open_attempts()
    ledger.close()
