"""Long lists of values, in parts that one statement carries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

_VALUES = 500

T = TypeVar("T")


def in_parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(values), _VALUES):
        yield values[at : at + _VALUES]
