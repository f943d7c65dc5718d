"""`make demo` checks every claim it makes; here it runs once, to the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "worldshop" / "demo.py"
DRAWN = DEMO.parents[2] / "docs" / "assets" / "incident.json"
POSTGRES = DEMO.with_name("demo_postgres.py")


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(400)  # under three minutes on two idle cores
def test_the_demo_holds_from_a_clean_folder(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    command = [sys.executable, str(DEMO), "--numbers", str(numbers)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert numbers.read_text() == DRAWN.read_text(), "the picture of the README shows other numbers"
    for claim in ("79.6 % too high", "Exact to the cent", "Already published", "IDENTICAL", "untouched"):
        assert claim in done.stdout


@pytest.mark.kill
@pytest.mark.long
@pytest.mark.timeout(600)  # under four minutes on two idle cores
def test_the_demo_with_postgres_holds_from_a_clean_folder(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(POSTGRES)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for claim in ("430,000 rows, and revenue is 72 % too high", "250,000 rows, exact to the cent", "Sixty orders"):
        assert claim in " ".join(done.stdout.split())


def test_the_demo_leaves_a_folder_alone_that_is_not_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "demo-shop" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("three years of work")
    done = subprocess.run([sys.executable, str(DEMO)], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, mine.read_text()) == (1, "three years of work")
    assert "Move it away" in done.stdout
