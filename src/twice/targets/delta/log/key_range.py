"""The range of the keys of a batch, by the statistics of its files: what is elsewhere in the table need not be read.
Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from twice.core.names.spark import quoted
from twice.targets.delta.log.condition import literal

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class KeyRange:
    """`low <= column <= high` for every row. Of whole numbers and dates only: their statistics are exact."""

    column: str
    low: int | date
    high: int | date

    @property
    def condition(self) -> str:
        low, high = (literal(value) if isinstance(value, date) else str(value) for value in (self.low, self.high))
        return f"{quoted(self.column)} BETWEEN {low} AND {high}"

    def misses(self, file: Mapping[str, Any]) -> bool:
        """Whether a file of the log can have no such row. One without statistics may have any."""
        found = _bounds(file, self.column, isinstance(self.low, date))
        return found is not None and (found[1] < self.low or found[0] > self.high)


def key_range_of(files: Sequence[Mapping[str, Any]], column: str, type_: str) -> KeyRange | None:
    """None where the files do not say it."""
    if type_ != "date" and type_ not in _INTEGERS:
        return None
    found = [_bounds(file, column, type_ == "date") for file in files]
    known = [bounds for bounds in found if bounds is not None]
    if not known or len(known) != len(found):
        return None
    return KeyRange(column, min(low for low, _ in known), max(high for _, high in known))


def _bounds(file: Mapping[str, Any], column: str, dates: bool) -> tuple[Any, Any] | None:
    try:
        stats = json.loads(file.get("stats") or "{}")
        low, high = stats["minValues"][column], stats["maxValues"][column]
        return (date.fromisoformat(low), date.fromisoformat(high)) if dates else (int(low), int(high))
    except (KeyError, TypeError, ValueError):
        return None
