"""Every strategy, ended in every way at every failpoint in memory, and run again: tests/proof/walks.py.
`replace`: test_landing.py and test_crash.py."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.proof.histories.memory_warehouses import MemoryWarehouses
from tests.proof.histories.steps import DAILY, INCREMENTAL
from tests.proof.walks import EVERYWHERE, walk_days, walk_windows
from tests.sample import sample


@pytest.fixture
def warehouses(empty_ledger: Path, tmp_path: Path) -> Iterator[MemoryWarehouses]:
    shutil.copy(empty_ledger, tmp_path / "ledger.db")
    made = MemoryWarehouses(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("walk", EVERYWHERE)
@pytest.mark.parametrize("task", sample([task for task in DAILY if task != "daily"], of=["merged", "raw"]))
def test_a_slice_that_ends_anywhere_and_is_run_again_is_written_once(
    warehouses: MemoryWarehouses, task: str, walk: str
) -> None:
    walk_days(warehouses, task, EVERYWHERE[walk])


@pytest.mark.parametrize("walk", EVERYWHERE)
@pytest.mark.parametrize("task", sample(INCREMENTAL, of=["feed"]))
def test_an_incremental_load_that_ends_anywhere_loses_no_row_and_doubles_none(
    warehouses: MemoryWarehouses, task: str, walk: str
) -> None:
    walk_windows(warehouses, task, EVERYWHERE[walk])
