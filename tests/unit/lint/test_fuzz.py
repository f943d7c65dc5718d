"""A hundred damaged files; `make test` tries two thousand (tests/integration/lint/test_lint_fuzz.py)."""

from __future__ import annotations

import pytest
from scripts import soak_lint

ROUNDS = 100


def test_damaged_files_neither_crash_nor_hang() -> None:
    failures = [failure for given in soak_lint.inputs(ROUNDS, 8) if (failure := soak_lint.tried(given))]
    assert not failures, "\n".join(f"round {failure.number} of seed 8: {failure.what}" for failure in failures)


def test_a_round_is_the_same_text_every_time() -> None:
    assert list(soak_lint.inputs(20, 3)) == list(soak_lint.inputs(20, 3))
    assert [given.text for given in soak_lint.inputs(20, 3)] != [given.text for given in soak_lint.inputs(20, 4)]


def test_a_crash_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("fault")

    monkeypatch.setattr(soak_lint, "lint_text", broken)
    failure = soak_lint.tried(next(soak_lint.inputs(1, 1)))
    assert failure is not None and "KeyError" in failure.what
