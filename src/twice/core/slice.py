"""A slice: one piece of a scope, half-open, with a stable label and the region of the table it owns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timezone

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
