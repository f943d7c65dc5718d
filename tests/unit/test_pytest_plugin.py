"""The plugin as every pytest loads it: options, the mark, and no engine before a proof is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import sys

def pytest_collection_finish(session):
    assert not {"pyspark", "sqlalchemy", "pydantic"} & set(sys.modules), "collecting tests loads no engine"
    print("collected without an engine")
"""

TESTS = """
import pytest

def test_revenue_may_run_twice(twice_prove):
    twice_prove("revenue_daily", date="2026-06-09")

@pytest.mark.twice_prove(scenarios=["twice"])
def test_orders_may_run_twice(twice_prove):
    twice_prove("orders", date="2026-06-09")

def test_that_proves_nothing():
    pass
"""


def test_collecting_tests_loads_no_engine_and_the_mark_leaves_proofs_out(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_tasks.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    command = [sys.executable, "-m", "pytest", "-sq", "-p", "no:cacheprovider", "-m", "not twice_prove"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "collected without an engine" in done.stdout
    assert "1 passed, 2 deselected" in done.stdout


def test_its_options_are_there_in_every_pytest(pytestconfig: pytest.Config) -> None:
    assert [pytestconfig.getoption(f"--twice-{name}") for name in ("project", "profile", "report")] == [None] * 3
    assert pytestconfig.getoption("--twice-scenario") == []
