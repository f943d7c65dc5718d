"""Two thousand damaged files: no crash, and none takes longer than two seconds.

The first hundred of another seed are tried with every `make check`, in tests/unit/lint/test_fuzz.py.
"""

from __future__ import annotations

import pytest
from scripts import soak_lint

ROUNDS = 2_000
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_files_neither_crash_nor_hang(part: int) -> None:
    each = ROUNDS // PARTS
    failures = [failure for given in soak_lint.inputs(each, 7, part * each) if (failure := soak_lint.tried(given))]
    assert not failures, "\n".join(f"round {failure.number} of seed 7: {failure.what}" for failure in failures)
