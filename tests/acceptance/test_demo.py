"""`make demo` tells a story whose every claim it checks itself; here it is told once, to the end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "worldshop" / "demo.py"
LIMIT_S = 180


@pytest.mark.kill
@pytest.mark.timeout(LIMIT_S + 60)
def test_the_demo_holds_from_a_clean_folder_in_under_three_minutes(tmp_path: Path) -> None:
    begun = time.monotonic()
    told = subprocess.run([sys.executable, str(DEMO)], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    assert time.monotonic() - begun < LIMIT_S
    for claim in ("too high", "Exact to the cent", "Already published", "IDENTICAL", "untouched"):
        assert claim in told.stdout


def test_the_demo_leaves_a_folder_alone_that_is_not_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "demo-shop" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("three years of work")
    told = subprocess.run([sys.executable, str(DEMO)], cwd=tmp_path, capture_output=True, text=True)
    assert (told.returncode, mine.read_text()) == (1, "three years of work")
    assert "Move it away" in told.stdout
