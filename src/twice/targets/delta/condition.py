"""The rows of some slices as a Spark SQL condition. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from twice.core.slice import Slice, SliceValue


def condition(slices: Sequence[Slice], column: str | None) -> str | None:
    """Which rows the slices own, told with the table's own spelling of the slice column; None for all of them.

    Slices that follow each other become one range: a year of days is one comparison, not 365.
    """
    if column is None:
        return None
    name = quoted(column)
    told = [f"({name} >= {literal(low)} AND {name} < {literal(high)})" for low, high in _ranges(slices)]
    return f"{name} IS NOT NULL AND ({' OR '.join(told)})"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(value: SliceValue) -> str:
    """With its zone: the meaning of a timestamp must not hang on a session's setting."""
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}'"
    return f"DATE '{value.isoformat()}'"


def _ranges(slices: Sequence[Slice]) -> list[tuple[SliceValue, SliceValue]]:
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
