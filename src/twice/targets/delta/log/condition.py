"""The rows of some slices as a condition of Spark SQL, and the columns it names. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from twice.core.names.spark import quoted
from twice.core.slice import Slice, SliceValue
from twice.targets.ranges import ranges


def condition(slices: Sequence[Slice], column: str | None) -> str | None:
    """Which rows the slices own, with the table's own spelling of the slice column; None for all of them."""
    if column is None:
        return None
    name = quoted(column)
    parts = [f"({name} >= {literal(low)} AND {name} < {literal(high)})" for low, high in ranges(slices)]
    return f"{name} IS NOT NULL AND ({' OR '.join(parts)})"


def spelled(names: Sequence[str], wanted: str) -> str:
    """The table's own spelling of a column: case does not count in Spark's names."""
    return next(name for name in names if name.lower() == wanted.lower())


def unused(names: Sequence[str], count: int) -> list[str]:
    """Names for columns that live only inside a plan, beside these."""
    prefix = "__twice"
    while any(name.lower().startswith(prefix) for name in names):
        prefix += "_"
    return [f"{prefix}_{at}" for at in range(count)]


def owned(slices: Sequence[Slice], names: Sequence[str]) -> str | None:
    """The rows that the slices own in a table with these columns, however it is partitioned; None for all of them."""
    bounds = slices[0].bounds
    return None if bounds is None else condition(slices, spelled(names, bounds.column))


def literal(value: SliceValue) -> str:
    """With its zone: the meaning of a timestamp must not depend on a session's setting."""
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}'"
    return f"DATE '{value.isoformat()}'"
