"""Slices as ranges of their column. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.slice import Slice, SliceValue


def ranges(slices: Sequence[Slice]) -> list[tuple[SliceValue, SliceValue]]:
    """Half-open ranges. Slices that follow each other become one: a year of days is one comparison, not 365."""
    # Fail closed: a slice without bounds in a table with a slice column would mean every row.
    bounds = [slice_.bounds for slice_ in slices]
    if not bounds or None in bounds:
        raise ValueError("every slice of a partitioned table has bounds")
    merged: list[tuple[SliceValue, SliceValue]] = []
    for low, high in sorted((each.low, each.high) for each in bounds if each is not None):
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged
