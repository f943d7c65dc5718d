"""What other writers did to a slice: read from the commits since it was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twice.core.ports import Foreign
from twice.core.slice import Slice
from twice.targets.delta.history import RECENT, History
from twice.targets.delta.table import Table
from twice.targets.grain import slice_value


def changes(history: History, table: Table, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
    """Foreign commits after a version that changed rows of the slices; only the newest hundred commits are read."""
    found = []
    for version in range(max(since + 1, table.version - RECENT + 1), table.version + 1):
        if history.note_at(version) is not None:
            continue  # ours: most are, and one line tells
        actions = history.actions(version)
        if actions is None:
            continue
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        if _touches(actions, table, slices):
            found.append(Foreign(version, str(info.get("operation", "unknown operation"))))
    return tuple(found)


def _touches(actions: Sequence[dict[str, Any]], table: Table, slices: Sequence[Slice]) -> bool:
    files = [body for action in actions for kind, body in action.items() if kind in ("add", "remove")]
    return any(file.get("dataChange") and _inside(file, table, slices) for file in files)


def _inside(file: dict[str, Any], table: Table, slices: Sequence[Slice]) -> bool:
    """A file of a table without a slice column, or one that does not say its partition, may hold any row."""
    column, values = table.shape.partitioned_by, file.get("partitionValues")
    if column is None or table.slice_type is None or values is None:
        return True
    value = slice_value(values.get(column), table.slice_type)
    return any(slice_.bounds is None or slice_.bounds.contain(value) for slice_ in slices)
