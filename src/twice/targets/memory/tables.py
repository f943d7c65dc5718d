"""Tables, versions and files in memory. Nothing here changes a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from twice.core.ports import Held, Shape
from twice.core.slice import Slice, SliceValue
from twice.core.table.token import Note
from twice.targets.grain import as_utc
from twice.targets.memory.rows import Rows


@dataclass(frozen=True)
class File:
    """Rows that came together and leave together, all of one partition value."""

    name: str
    value: SliceValue | None
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Version:
    files: tuple[File, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    note: Note | None = None


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


@dataclass(frozen=True)
class Intent:
    """A table as a commit will leave it: made (`before` is None), with more columns, or as it is."""

    shape: Shape
    mark: str | None
    before: Shape | None


@dataclass(frozen=True)
class Stage:
    files: tuple[File, ...]
    read_at: int | None
    into: Intent


def held_token(table: StoredTable, app: str, generation: int) -> Held:
    for number, version in reversed(list(enumerate(table.versions))):
        if version.note is not None and version.note.generations.get(app) == generation:
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


def files_of(rows: Rows, partitioned_by: str | None, attempt: str) -> tuple[File, ...]:
    parts: dict[SliceValue | None, list[tuple[Any, ...]]] = {}
    values = rows.values(partitioned_by) if partitioned_by else (None,) * len(rows.rows)
    for value, row in zip(values, rows.rows, strict=True):
        parts.setdefault(None if value is None else as_utc(value), []).append(row)
    return tuple(File(f"{attempt}-{uuid4()}", value, tuple(part)) for value, part in parts.items())


def inside(value: SliceValue | None, slices: Sequence[Slice]) -> bool:
    return any(slice_.bounds is None or slice_.bounds.contain(value) for slice_ in slices)


def widened(files: tuple[File, ...], shape: Shape) -> tuple[File, ...]:
    """Rows that are older than a column have NULL in it."""
    width = len(shape.columns)
    return tuple(replace(file, rows=tuple((*row, *[None] * (width - len(row))) for row in file.rows)) for file in files)


def referred_files(held: StoredTable | None) -> set[str]:
    return {file.name for version in (held.versions if held else ()) for file in version.files}
