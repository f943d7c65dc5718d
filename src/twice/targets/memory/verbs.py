"""The write verbs on files in memory. Pure: the files of the next version, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from twice.core.closed import assert_never
from twice.core.ports import Shape, Staged
from twice.core.slice import Slice
from twice.core.write import AppendRows, Changes, ReplaceRows, UpsertRows
from twice.targets.keyed import key_of, upsert
from twice.targets.memory.rows import Rows
from twice.targets.memory.tables import MemoryFile, files_of, inside


def carry_out(
    shape: Shape, there: tuple[MemoryFile, ...], staged: Staged
) -> tuple[tuple[MemoryFile, ...], Changes | None]:
    """The files of the next version."""
    files: tuple[MemoryFile, ...] = staged.handle.files
    verb = staged.plan.write
    match verb:
        case ReplaceRows():
            return tuple(file for file in there if not inside(file.value, verb.slices)) + files, None
        case UpsertRows():
            upserted, changes = _upserted(shape, there, files, verb, staged.attempt)
            return upserted, replace(changes, deduplicated=staged.deduplicated, ties=changes.ties + staged.ties)
        case AppendRows():
            return there + files, None
        case _:
            assert_never(verb)


def _upserted(
    shape: Shape, there: tuple[MemoryFile, ...], files: tuple[MemoryFile, ...], verb: UpsertRows, attempt: str
) -> tuple[tuple[MemoryFile, ...], Changes]:
    """Only files that hold a row to update or to delete are written again."""
    names = [column.name for column in shape.columns]
    key = key_of(names, verb)
    rows, held = ([row for file in some for row in file.rows] for some in (files, there))
    found = upsert(rows, held, names, verb, _owner(names, verb.slices))
    kept = [file for file in there if not any(key(row) in found.gone for row in file.rows)]
    left = [row for file in there if file not in kept for row in file.rows if key(row) not in found.gone]
    written = files_of(Rows(shape.columns, (*left, *found.written)), shape.partitioned_by, attempt)
    return (*kept, *written), found.changes


def _owner(names: Sequence[str], slices: Sequence[Slice]) -> Callable[[tuple[Any, ...]], bool]:
    column = slices[0].bounds.column.lower() if slices[0].bounds else None
    at = None if column is None else [name.lower() for name in names].index(column)
    return lambda row: inside(None if at is None else row[at], slices)
