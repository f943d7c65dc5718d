"""A table system in this process's memory: versions, tokens, staging and a lock, as a real one has them.

The runtime's tests run on it without a JVM. One object may be shared by threads, as a warehouse is.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import uuid4

from twice.core.closed import assert_never
from twice.core.failpoints import Point, hit
from twice.core.interruption import uninterrupted
from twice.core.owner import Ownership, ownership
from twice.core.ports import Column, Foreign, Held, Landed, Lost, Prepared, Published, Shape, Span, Staged, Touched
from twice.core.slice import Slice, SliceValue, labels_of
from twice.core.task import TableName
from twice.core.time_scope import SliceColumn
from twice.core.token import Note
from twice.core.write import AppendRows, Changes, Layout, Plan, ReplaceRows, UpsertRows
from twice.errors import DeclarationError, InputMissing, RowsOutsideSlice, StageLost, StageMismatch
from twice.targets.grain import as_utc, check_grain, check_partitioning, check_values, grain_mark
from twice.targets.keyed import key_of, survivors, upsert
from twice.targets.schema import check_fit, check_named, intended


@dataclass(frozen=True)
class Rows:
    """A tiny frame: columns with Spark's type names, and tuples."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...] = ()

    def values(self, name: str) -> tuple[Any, ...]:
        at = self._index(name)
        return tuple(row[at] for row in self.rows)

    def select(self, names: Sequence[str]) -> Rows:
        """These columns, in this order, by name (case does not count)."""
        order = [self._index(name) for name in names]
        return Rows(tuple(self.columns[at] for at in order), tuple(tuple(row[at] for at in order) for row in self.rows))

    def where(self, name: str, low: Any, high: Any) -> Rows:
        """The rows with `low <= name < high`; NULL is never inside."""
        at = self._index(name)
        return Rows(self.columns, tuple(row for row in self.rows if row[at] is not None and low <= row[at] < high))

    def _index(self, name: str) -> int:
        return [column.name.lower() for column in self.columns].index(name.lower())


@dataclass(frozen=True)
class _File:
    """Rows that came together and leave together, all of one partition value."""

    name: str
    value: SliceValue | None
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class _Version:
    files: tuple[_File, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    note: Note | None = None


@dataclass
class _Table:
    shape: Shape
    mark: str | None
    versions: list[_Version]
    id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def latest(self) -> tuple[int, _Version]:
        # One look at the list: versions are only ever appended, so a reader needs no lock.
        versions = tuple(self.versions)
        return len(versions) - 1, versions[-1]


@dataclass(frozen=True)
class _Intent:
    """A table as a commit will leave it: made (`before` is None), with more columns, or as it is."""

    shape: Shape
    mark: str | None
    before: Shape | None


@dataclass(frozen=True)
class _Stage:
    files: tuple[_File, ...]
    read_at: int | None
    into: _Intent


class MemoryTarget:
    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._staged: dict[tuple[str, str], tuple[_File, ...]] = {}
        """By table and attempt."""
        self._lock = threading.RLock()

    def prepare(self, table: TableName, shape: Shape, layout: Layout, evolve: bool) -> Prepared:
        """Only looks. Dying here leaves everything as it was."""
        slice_column = layout.slice_column
        with self._lock:
            held = self._tables.get(table.name)
            columns = intended(shape, None if held is None else held.shape, evolve)
            if held is None:
                mark = None if slice_column is None else grain_mark(slice_column)
                into = _Intent(Shape(columns, _partition_column(shape, slice_column)), mark, None)
            else:
                if not layout.any_partitions:
                    _check_partitions(table, held, slice_column)
                into = _Intent(Shape(columns, held.shape.partitioned_by), held.mark, held.shape)
            check_named(table.name, into.shape, layout)
            return Prepared(into.shape, held is not None, into)

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        held = self._tables.get(table.name)
        if held is None:
            return Published(None, dict.fromkeys(token_names, 0))
        number, version = held.latest
        owners = ownership(version.tokens) if token_names else Ownership()
        return Published(number, {app: version.tokens.get(app, 0) for app in token_names}, owners, held.id)

    def tokens(self, table: TableName, prefix: str) -> dict[str, Held]:
        held = self._tables.get(table.name)
        if held is None:
            return {}
        tokens = held.latest[1].tokens
        return {app: _held(held, app, generation) for app, generation in tokens.items() if app.startswith(prefix)}

    def provenance(self, table: TableName, token_name: str, generation: int) -> Note | None:
        held = self._tables.get(table.name)
        found = _held(held, token_name, generation) if held else None
        return found.note if found else None

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        held = self._tables.get(table.name)
        versions = list(enumerate(held.versions))[since:] if held else []
        return tuple(
            Foreign(number, "WRITE")
            for (_, before), (number, after) in pairwise(versions)
            if after.note is None and _touched(before, after, slices)
        )

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:
        held = self._tables.get(table.name)
        if held is None:
            return None
        number, _ = held.latest
        if not 0 <= since <= number:
            return Touched(table.name, number, None, held.id)
        at = None if column is None else [c.name.lower() for c in held.shape.columns].index(column.lower())
        spans = [
            Span(version) if at is None or row[at] is None else Span(version, row[at], row[at])
            for version in range(since + 1, number + 1)
            for row in _exchanged(held.versions[version - 1], held.versions[version])
        ]
        return Touched(table.name, number, tuple(spans), held.id)

    def one_slice_only(self, table: TableName) -> str | None:  # noqa: ARG002 - a commit here takes any number
        return None

    def stage(
        self,
        table: TableName,
        frame: Rows | None,
        plan: Plan,
        attempt: str,
        *,
        read_at: int | None = None,
        into: Prepared | None = None,
    ) -> Staged:
        """Dying here leaves rows under the attempt's name that no reader sees."""
        intent = self._as_it_is(table) if into is None else into.handle
        shape: Shape = intent.shape
        frame = Rows(shape.columns) if frame is None else frame
        check_fit(Shape(frame.columns), shape)
        names = [column.name for column in shape.columns]
        rows = given = frame.select(names)
        ties = 0
        match plan.write:
            case UpsertRows():
                best, ties = survivors(given.rows, names, plan.write)
                rows = replace(given, rows=best)
            case ReplaceRows() | AppendRows():
                pass
            case _:
                assert_never(plan.write)
        files = _files(rows, shape.partitioned_by, attempt)
        counts = _count(files, plan.slices)
        with self._lock:
            self._staged[table.name, attempt] = files
        hit(Point.IN_STAGE)
        return Staged(
            table,
            plan,
            attempt,
            len(rows.rows),
            counts,
            tuple(file.name for file in files),
            len(given.rows) - len(rows.rows),
            ties,
            _Stage(files, read_at, intent),
        )

    def duplicates(self, staged: Staged, columns: Sequence[str]) -> int | None:  # noqa: ARG002 - nothing counts here
        return None

    def commit(self, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
        """Dying before the new version is appended publishes nothing; after it, everything."""
        plan = staged.plan
        if set(expected) != set(plan.token_names):
            raise ValueError("a generation is expected of every token of the plan, and of no other")
        with self._lock:
            before = self.published(staged.table, plan.token_names)
            if before.generations != dict(expected):
                return Lost(before)
            stage: _Stage = staged.handle
            if stage.read_at not in (None, before.version):
                raise StageMismatch(
                    "the table changed after this task read it, so its rows may be out of date",
                    fix="Run the task again.",
                )
            held = self._tables.get(staged.table.name)
            _check_unchanged(stage.into, None if held is None else held.shape)
            key = staged.table.name, staged.attempt
            _verify(staged, self._staged.get(key))
            current = held.versions[-1] if held else _Version()
            shape = stage.into.shape
            files, changes = _written(shape, _widened(current.files, shape), staged)
            hit(Point.BEFORE_COMMIT)
            told = replace(note, changes=changes)
            version = _Version(files, {**current.tokens, **note.generations}, told)
            with uninterrupted():
                if held is None:
                    held = self._tables[staged.table.name] = _Table(shape, stage.into.mark, [_Version(), version])
                else:
                    held.shape = shape
                    held.versions.append(version)
                hit(Point.AFTER_COMMIT)
            self._staged.pop(key)
            return Landed(len(held.versions) - 1, changes)

    def discard(self, table: TableName, attempt: str, slices: Sequence[Slice]) -> int:
        """Dying here leaves the rest for the next call."""
        with self._lock:
            mine, seen = self._staged.get((table.name, attempt), ()), _referred(self._tables.get(table.name))
            gone = {file.name for file in mine if _inside(file.value, slices)} - seen
            self._staged[table.name, attempt] = tuple(file for file in mine if file.name not in gone)
            return len(gone)

    def forget(self, table: TableName, before: datetime) -> int:  # noqa: ARG002 - a version is all that is kept
        return 0

    def read(self, table: TableName, at: int | Staged | None = None) -> Rows:
        """Never waits for a writer."""
        if isinstance(at, Staged):
            stage: _Stage = at.handle
            return Rows(stage.into.shape.columns, tuple(row for file in stage.files for row in file.rows))
        held = self._existing(table)
        number, version = held.latest
        if at is None:
            files = version.files
        elif 0 <= at <= number:
            files = held.versions[at].files
        else:
            raise InputMissing(f"{table.name} has no version {at}")
        return Rows(held.shape.columns, tuple(row for file in _widened(files, held.shape) for row in file.rows))

    def files(self, table: TableName) -> tuple[str, ...]:
        """The names of the files the current version refers to."""
        return tuple(file.name for file in self._existing(table).latest[1].files)

    def leftovers(self, table: TableName, attempt: str) -> tuple[str, ...]:
        """The names of an attempt's staged files that no version refers to."""
        with self._lock:
            seen = _referred(self._tables.get(table.name))
            return tuple(file.name for file in self._staged.get((table.name, attempt), ()) if file.name not in seen)

    def _as_it_is(self, table: TableName) -> _Intent:
        held = self._existing(table)
        return _Intent(held.shape, held.mark, held.shape)

    def _existing(self, table: TableName) -> _Table:
        held = self._tables.get(table.name)
        if held is None:
            raise InputMissing(f"there is no table {table.name}", now="", fix="Run the task that writes it.")
        return held


def _written(shape: Shape, there: tuple[_File, ...], staged: Staged) -> tuple[tuple[_File, ...], Changes | None]:
    """The files of the next version."""
    files: tuple[_File, ...] = staged.handle.files
    verb = staged.plan.write
    match verb:
        case ReplaceRows():
            return tuple(file for file in there if not _inside(file.value, verb.slices)) + files, None
        case UpsertRows():
            upserted, changes = _upserted(shape, there, files, verb, staged.attempt)
            return upserted, replace(changes, deduplicated=staged.deduplicated, ties=changes.ties + staged.ties)
        case AppendRows():
            return there + files, None
        case _:
            assert_never(verb)


def _upserted(
    shape: Shape, there: tuple[_File, ...], files: tuple[_File, ...], verb: UpsertRows, attempt: str
) -> tuple[tuple[_File, ...], Changes]:
    """Only files that hold a row to update or to delete are written again."""
    names = [column.name for column in shape.columns]
    key = key_of(names, verb)
    rows, held = ([row for file in some for row in file.rows] for some in (files, there))
    found = upsert(rows, held, names, verb, _owner(names, verb.slices))
    kept = [file for file in there if not any(key(row) in found.gone for row in file.rows)]
    left = [row for file in there if file not in kept for row in file.rows if key(row) not in found.gone]
    written = _files(Rows(shape.columns, (*left, *found.written)), shape.partitioned_by, attempt)
    return (*kept, *written), found.changes


def _owner(names: Sequence[str], slices: Sequence[Slice]) -> Callable[[tuple[Any, ...]], bool]:
    column = slices[0].bounds.column.lower() if slices[0].bounds else None
    at = None if column is None else [name.lower() for name in names].index(column)
    return lambda row: _inside(None if at is None else row[at], slices)


def _held(table: _Table, app: str, generation: int) -> Held:
    for number, version in reversed(list(enumerate(table.versions))):
        if version.note is not None and version.note.generations.get(app) == generation:
            return Held(generation, number, replace(version.note, version=number))
    return Held(generation, None, None)


def _exchanged(before: _Version, after: _Version) -> list[tuple[Any, ...]]:
    """The rows that one version has and the other has not, or has more often."""
    old, new = (Counter(row for file in version.files for row in file.rows) for version in (before, after))
    return [*(old - new), *(new - old)]


def _touched(before: _Version, after: _Version, slices: Sequence[Slice]) -> bool:
    changed = {file.name: file for file in (*before.files, *after.files)}
    both = {file.name for file in before.files} & {file.name for file in after.files}
    return any(_inside(file.value, slices) for name, file in changed.items() if name not in both)


def _partition_column(shape: Shape, slice_column: SliceColumn | None) -> str | None:
    if slice_column is None:
        return None
    for column in shape.columns:
        if column.name.lower() == slice_column.name.lower() and column.type == slice_column.type:
            return column.name
    raise DeclarationError(
        f"the result has no {slice_column.type} column {slice_column.name}",
        fix="Keep the scope's column in the result.",
    )


def _check_partitions(table: TableName, held: _Table, slice_column: SliceColumn | None) -> None:
    held_by = held.shape.partitioned_by
    check_partitioning(table.name, () if held_by is None else (held_by,), slice_column)
    if slice_column is not None:
        check_grain(table.name, held.mark, slice_column)
        check_values(table.name, held.mark, (file.value for file in held.versions[-1].files), slice_column)


def _files(rows: Rows, partitioned_by: str | None, attempt: str) -> tuple[_File, ...]:
    parts: dict[SliceValue | None, list[tuple[Any, ...]]] = {}
    values = rows.values(partitioned_by) if partitioned_by else (None,) * len(rows.rows)
    for value, row in zip(values, rows.rows, strict=True):
        parts.setdefault(None if value is None else as_utc(value), []).append(row)
    return tuple(_File(f"{attempt}-{uuid4()}", value, tuple(part)) for value, part in parts.items())


def _count(files: Sequence[_File], slices: Sequence[Slice]) -> dict[str, int]:
    counts = {slice_.label: 0 for slice_ in slices}
    for file in files:
        for slice_ in slices:
            if _inside(file.value, [slice_]):
                counts[slice_.label] += len(file.rows)
                break
        else:
            labels = labels_of(slices)
            raise RowsOutsideSlice(
                f"the result has rows outside {labels}, e.g. with the value {file.value or 'NULL'}",
                fix="Filter the result to its slice.",
            )
    return counts


def _inside(value: SliceValue | None, slices: Sequence[Slice]) -> bool:
    return any(slice_.bounds is None or slice_.bounds.contain(value) for slice_ in slices)


def _verify(staged: Staged, kept: tuple[_File, ...] | None) -> None:
    if kept != staged.handle.files:
        raise StageLost("the staged rows are gone", fix="Run the task again.")
    _count(staged.handle.files, staged.plan.slices)


def _check_unchanged(into: _Intent, now: Shape | None) -> None:
    """Rows staged for other columns must not enter the table, whoever made or changed it meanwhile."""
    if now not in (into.before, into.shape):
        raise StageMismatch(
            "the table was made or changed by someone else while this run was at work", fix="Run the task again."
        )


def _widened(files: tuple[_File, ...], shape: Shape) -> tuple[_File, ...]:
    """Rows that are older than a column have NULL in it."""
    width = len(shape.columns)
    return tuple(replace(file, rows=tuple((*row, *[None] * (width - len(row))) for row in file.rows)) for file in files)


def _referred(held: _Table | None) -> set[str]:
    return {file.name for version in (held.versions if held else ()) for file in version.files}
