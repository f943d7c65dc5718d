"""A hundred damaged files; `make test` tries two thousand (tests/integration/lint/test_lint_fuzz.py)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "soak_lint.py"
ROUNDS = 100


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak_lint", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak_lint"] = module
    spec.loader.exec_module(module)
    return module


def test_damaged_files_neither_crash_nor_hang(soak: ModuleType) -> None:
    failures = [failure for given in soak.inputs(ROUNDS, 8) if (failure := soak.tried(given))]
    assert not failures, "\n".join(f"round {failure.number} of seed 8: {failure.what}" for failure in failures)


def test_a_round_is_the_same_text_every_time(soak: ModuleType) -> None:
    assert list(soak.inputs(20, 3)) == list(soak.inputs(20, 3))
    assert [given.text for given in soak.inputs(20, 3)] != [given.text for given in soak.inputs(20, 4)]


def test_a_crash_would_be_noticed(soak: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("fault")

    monkeypatch.setattr(soak, "lint_text", broken)
    failure = soak.tried(next(soak.inputs(1, 1)))
    assert "KeyError" in failure.what
