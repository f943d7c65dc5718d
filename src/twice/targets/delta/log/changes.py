"""What the commits since a version did to a table, by others or at all: read from the log, without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from twice.core.ports import ChangedRange, Foreign, Touched
from twice.core.slice import Slice
from twice.targets.delta.log.commits import Commits, note_in
from twice.targets.delta.log.table import Table
from twice.targets.grain import slice_value

FARTHEST = 20_000
"""So many commits are read; a table that moved further counts as changed everywhere."""

_MILLISECOND = timedelta(milliseconds=1)


def foreign_changes(history: Commits, table: Table, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
    """Foreign commits after a version that changed rows of the slices, as far as the log remembers."""
    found: list[Foreign] = []
    for version in range(table.version, since, -1):
        line = history.first_line(version)
        if line is not None and note_in(line) is not None:
            continue  # ours: most are, and one line shows it
        actions = None if line is None else history.actions(version)
        if actions is None:
            found.append(Foreign(version, "forgotten", forgotten=True))
            break  # cleaned up, and everything before it too
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        if _changes_rows(actions, table, slices):
            found.append(Foreign(version, str(info.get("operation", "unknown operation"))))
    return tuple(reversed(found))


def touched_rows(history: Commits, name: str, table: Table, since: int, column: str | None) -> Touched:
    """`name` is what a plan's leaves call this table."""
    if not 0 <= since <= table.version or table.version - since > FARTHEST:
        return Touched(name, table.version, None, table.id)
    by = _Column.of(table, column)
    spans: dict[ChangedRange, None] = {}
    for version in range(since + 1, table.version + 1):
        actions = history.actions(version)
        if actions is None:
            return Touched(name, table.version, None, table.id)
        spans.update(dict.fromkeys(_spans(version, actions, by)))
    return Touched(name, table.version, tuple(spans), table.id)


def _changes_rows(actions: Sequence[dict[str, Any]], table: Table, slices: Sequence[Slice]) -> bool:
    files = [body for action in actions for kind, body in action.items() if kind in ("add", "remove")]
    return any(file.get("dataChange") and _inside(file, table, slices) for file in files)


def _inside(file: dict[str, Any], table: Table, slices: Sequence[Slice]) -> bool:
    """A file of a table without a slice column, or one that does not say its partition, may hold any row."""
    column, values = table.shape.partitioned_by, file.get("partitionValues") or {}
    if column is None or table.slice_type is None or table.in_log(column) not in values:
        return True
    value = slice_value(values[table.in_log(column)], table.slice_type)
    return any(slice_.bounds is None or slice_.bounds.contain(value) for slice_ in slices)


class _Column:
    """How a file of the table shows its values in one column: by its partition, or by its statistics."""

    def __init__(self, name: str, type_: str, partition: bool) -> None:
        self.name, self.type, self.partition = name, type_, partition

    @classmethod
    def of(cls, table: Table, name: str | None) -> _Column | None:
        for column in table.shape.columns:
            if name is not None and column.name.lower() == name.lower() and column.type in ("date", "timestamp"):
                return cls(table.in_log(column.name), column.type, column.name in table.partition_columns)
        return None

    def span(self, version: int, file: dict[str, Any]) -> ChangedRange | None:
        """None if no row of the file has a value: such rows are in no slice. Any value, where Python has no date for
        one of the file's: Spark counts further than the year 9999."""
        try:
            if self.partition:
                value = slice_value(file["partitionValues"][self.name], self.type)
                return None if value is None else ChangedRange(version, value, value)
            stats = json.loads(file["stats"])
            low = slice_value(stats["minValues"][self.name], self.type)
            high = slice_value(stats["maxValues"][self.name], self.type)
            # Statistics of instants are cut to milliseconds.
            return ChangedRange(version, low, high + _MILLISECOND if isinstance(high, datetime) else high)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return ChangedRange(version)


def _spans(version: int, actions: Sequence[dict[str, Any]], by: _Column | None) -> Iterator[ChangedRange]:
    for action in actions:
        if "metaData" in action:
            yield ChangedRange(version)  # other columns, or another table in its place
        for file in (action.get("add"), action.get("remove")):
            if file is None or not file.get("dataChange"):
                continue
            span = ChangedRange(version) if by is None else by.span(version, file)
            if span is not None:
                yield span
