"""Two thousand damaged files: no crash, and none takes longer than two seconds.

The first hundred of another seed are tried with every `make check`, in tests/unit/lint/test_fuzz.py.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "soak_lint.py"
ROUNDS = 2_000
PARTS = 4


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak_lint", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak_lint"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_files_neither_crash_nor_hang(part: int, soak: ModuleType) -> None:
    each = ROUNDS // PARTS
    failures = [failure for given in soak.inputs(each, 7, part * each) if (failure := soak.tried(given))]
    assert not failures, "\n".join(f"round {failure.number} of seed 7: {failure.what}" for failure in failures)
