"""A slice: one piece of a scope, half-open, with a stable label and the region of the table it owns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import Any

SliceValue = date | datetime

BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
END = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Bounds:
    """The rows a slice owns: `low <= column < high`, in the slice column's own type. NULL is never inside."""

    column: str
    low: SliceValue
    high: SliceValue

    def contain(self, value: SliceValue | None) -> bool:
        return value is not None and self.low <= value < self.high


@dataclass(frozen=True, order=True)
class Slice:
    """`[start, end)` as UTC instants. `bounds` is None for the slice that is the whole table."""

    start: datetime
    end: datetime
    label: str
    bounds: Bounds | None = field(default=None, compare=False)


WHOLE = Slice(BEGINNING, END, "all")

_SHOWN = 3


def labels_of(slices: Sequence[Slice]) -> str:
    """For people: a batch may have hundreds."""
    if len(slices) <= _SHOWN:
        return ", ".join(slice_.label for slice_ in slices)
    return f"{slices[0].label} to {slices[-1].label} ({len(slices)} slices)"


class Owners:
    """Which of some slices owns a value of the slice column. Slices of one plan never overlap, so the one is found by
    halving: a batch has hundreds of slices, and a table thousands of files to ask for."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        bounded = [(slice_.bounds, slice_) for slice_ in slices if slice_.bounds is not None]
        # Of one type, date or datetime, as the column is: the two do not compare.
        self._bounded: list[tuple[Any, Slice]] = sorted(bounded, key=lambda pair: pair[0].low)
        self._lows = [bounds.low for bounds, _ in self._bounded]

    def of(self, value: SliceValue | None) -> Slice | None:
        at = 0 if value is None else bisect_right(self._lows, value)
        if at == 0:
            return None
        bounds, slice_ = self._bounded[at - 1]
        return slice_ if bounds.contain(value) else None
