"""Tables, versions and files in memory: what they refuse, and what the write verbs make of them. Pure: nothing here
changes a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from twice.core.closed import assert_never
from twice.core.ports import Held, Shape, Staged
from twice.core.slice import Slice, SliceValue, labels_of
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.time_scope import SliceColumn
from twice.core.write import AppendRows, Changes, ReplaceRows, ReplaceTable, UpsertRows
from twice.errors import DeclarationError, RowsOutsideSlice, StageLost, TableChanged
from twice.targets.grain import as_utc, check_grain, check_partitioning, check_values
from twice.targets.keyed import key_of, upsert
from twice.targets.memory.rows import Rows


@dataclass(frozen=True)
class MemoryFile:
    """Rows that came together and leave together, all of one partition value."""

    name: str
    value: SliceValue | None
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Version:
    """`shape`: of its rows; None where there are none."""

    files: tuple[MemoryFile, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    note: CommitNote | None = None
    shape: Shape | None = None


@dataclass
class StoredTable:
    shape: Shape
    mark: str | None
    versions: list[Version]
    id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def latest(self) -> tuple[int, Version]:
        # One look at the list: versions are only ever appended, so a reader needs no lock.
        versions = tuple(self.versions)
        return len(versions) - 1, versions[-1]

    def rows_at(self, version: Version) -> tuple[Shape, tuple[tuple[Any, ...], ...]]:
        """With the columns of now, NULL in those that are newer; with its own where the table was exchanged since."""
        shape = self.shape if extends(self.shape, version.shape) else version.shape
        assert shape is not None
        return shape, tuple(row for file in widened(version.files, shape) for row in file.rows)


@dataclass(frozen=True)
class Intent:
    """A table as a commit will leave it: made (`before` is None), with more columns, or as it is."""

    shape: Shape
    mark: str | None
    before: Shape | None


@dataclass(frozen=True)
class Stage:
    files: tuple[MemoryFile, ...]
    into: Intent


def held_token(table: StoredTable, token_name: str, generation: int) -> Held:
    for number, version in reversed(list(enumerate(table.versions))):
        if version.note is not None and version.note.generations.get(token_name) == generation:
            return Held(generation, number, replace(version.note, version=number))
    return Held(generation, None, None)


def exchanged_rows(before: Version, after: Version) -> list[tuple[Any, ...]]:
    """The rows that one version has and the other has not, or has more often."""
    old, new = (Counter(row for file in version.files for row in file.rows) for version in (before, after))
    return [*(old - new), *(new - old)]


def changed_slices(before: Version, after: Version, slices: Sequence[Slice]) -> bool:
    changed = {file.name: file for file in (*before.files, *after.files)}
    both = {file.name for file in before.files} & {file.name for file in after.files}
    return any(inside(file.value, slices) for name, file in changed.items() if name not in both)


def files_of(rows: Rows, partitioned_by: str | None, attempt: str) -> tuple[MemoryFile, ...]:
    parts: dict[SliceValue | None, list[tuple[Any, ...]]] = {}
    values = rows.values(partitioned_by) if partitioned_by else (None,) * len(rows.rows)
    for value, row in zip(values, rows.rows, strict=True):
        parts.setdefault(None if value is None else as_utc(value), []).append(row)
    return tuple(MemoryFile(f"{attempt}-{uuid4()}", value, tuple(part)) for value, part in parts.items())


def inside(value: SliceValue | None, slices: Sequence[Slice]) -> bool:
    return any(slice_.bounds is None or slice_.bounds.contain(value) for slice_ in slices)


def widened(files: tuple[MemoryFile, ...], shape: Shape) -> tuple[MemoryFile, ...]:
    """Rows that are older than a column have NULL in it."""
    width = len(shape.columns)
    return tuple(replace(file, rows=tuple((*row, *[None] * (width - len(row))) for row in file.rows)) for file in files)


def extends(now: Shape, before: Shape | None) -> bool:
    """Whether columns were only added."""
    return before is None or now.columns[: len(before.columns)] == before.columns


def referred_files(held: StoredTable | None) -> set[str]:
    return {file.name for version in (held.versions if held else ()) for file in version.files}


def partition_column(shape: Shape, slice_column: SliceColumn | None) -> str | None:
    if slice_column is None:
        return None
    for column in shape.columns:
        if column.name.lower() == slice_column.name.lower() and column.type == slice_column.type:
            return column.name
    raise DeclarationError(
        f"the result has no {slice_column.type} column {slice_column.name}",
        fix="Keep the scope's column in the result.",
    )


def check_partitions(table: TableName, held: StoredTable, slice_column: SliceColumn | None) -> None:
    held_by = held.shape.partitioned_by
    check_partitioning(table.name, () if held_by is None else (held_by,), slice_column)
    if slice_column is not None:
        check_grain(table.name, held.mark, slice_column)
        check_values(table.name, held.mark, (file.value for file in held.versions[-1].files), slice_column)


def count_rows(files: Sequence[MemoryFile], slices: Sequence[Slice]) -> dict[str, int]:
    counts = {slice_.label: 0 for slice_ in slices}
    for file in files:
        for slice_ in slices:
            if inside(file.value, [slice_]):
                counts[slice_.label] += len(file.rows)
                break
        else:
            labels = labels_of(slices)
            raise RowsOutsideSlice(
                f"the result has rows outside {labels}, e.g. with the value {file.value or 'NULL'}",
                fix="Filter the result to its slice.",
            )
    return counts


def check_staged(staged: Staged, kept: tuple[MemoryFile, ...] | None) -> None:
    if kept != staged.handle.files:
        raise StageLost("the staged rows are gone", fix="Run the task again.")
    count_rows(staged.handle.files, staged.plan.slices)


def check_unchanged(into: Intent, now: Shape | None) -> None:
    """Rows staged for other columns must not enter the table, whoever made or changed it meanwhile."""
    if now not in (into.before, into.shape):
        raise TableChanged(
            "the table was made or changed by someone else while this run was at work", fix="Run the task again."
        )


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
        case ReplaceTable():
            return files, None
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
