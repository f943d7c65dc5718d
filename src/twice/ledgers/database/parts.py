"""Long lists of values, in parts that one statement carries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_VALUES = 500


def in_parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(values), _VALUES):
        yield values[at : at + _VALUES]
