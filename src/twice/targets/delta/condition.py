"""The rows of some slices as a Spark SQL condition. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from twice.core.slice import Slice, SliceValue
from twice.targets.ranges import ranges


def condition(slices: Sequence[Slice], column: str | None) -> str | None:
    """Which rows the slices own, told with the table's own spelling of the slice column; None for all of them."""
    if column is None:
        return None
    name = quoted(column)
    told = [f"({name} >= {literal(low)} AND {name} < {literal(high)})" for low, high in ranges(slices)]
    return f"{name} IS NOT NULL AND ({' OR '.join(told)})"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(value: SliceValue) -> str:
    """With its zone: the meaning of a timestamp must not hang on a session's setting."""
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}'"
    return f"DATE '{value.isoformat()}'"
