"""What other writers did to a slice: read from the commits since it was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twice.core.ports import Foreign
from twice.core.slice import Slice
from twice.targets.delta.log.history import History, note_in
from twice.targets.delta.log.table import Table
from twice.targets.grain import slice_value


def changes(history: History, table: Table, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
    """Foreign commits after a version that changed rows of the slices, as far as the log remembers."""
    found: list[Foreign] = []
    for version in range(table.version, since, -1):
        line = history.first_line(version)
        if line is not None and note_in(line) is not None:
            continue  # ours: most are, and one line tells
        actions = None if line is None else history.actions(version)
        if actions is None:
            found.append(Foreign(version, "forgotten", forgotten=True))
            break  # cleaned up, and everything before it too
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        if _touches(actions, table, slices):
            found.append(Foreign(version, str(info.get("operation", "unknown operation"))))
    return tuple(reversed(found))


def _touches(actions: Sequence[dict[str, Any]], table: Table, slices: Sequence[Slice]) -> bool:
    files = [body for action in actions for kind, body in action.items() if kind in ("add", "remove")]
    return any(file.get("dataChange") and _inside(file, table, slices) for file in files)


def _inside(file: dict[str, Any], table: Table, slices: Sequence[Slice]) -> bool:
    """A file of a table without a slice column, or one that does not say its partition, may hold any row."""
    column, values = table.shape.partitioned_by, file.get("partitionValues") or {}
    if column is None or table.slice_type is None or table.in_log(column) not in values:
        return True
    value = slice_value(values[table.in_log(column)], table.slice_type)
    return any(slice_.bounds is None or slice_.bounds.contain(value) for slice_ in slices)
