"""Which cases of a long walk `make test` takes: the others carry the mark `long` and are taken by `make test-long`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sample(cases: Iterable[Any], of: Collection[Any]) -> list[Any]:
    """All cases, for `parametrize`; those that are not among `of` are long."""
    return [case if case in of else pytest.param(*_values(case), marks=pytest.mark.long) for case in cases]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
