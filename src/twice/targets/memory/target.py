"""A table system in this process's memory: versions, tokens, staging and a lock, as a real one has them.

The runtime's tests run on it without a JVM. One object may be shared by threads, as a warehouse is.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from twice.core.closed import assert_never
from twice.core.failure.failpoints import Point, hit
from twice.core.failure.interruption import uninterrupted
from twice.core.ports import ChangedRange, Foreign, Held, Landed, Lost, PreparedTable, Published, Shape, Staged, Touched
from twice.core.slice import Slice
from twice.core.table.owner import Ownership, ownership
from twice.core.table.rebuild import not_ours
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, ReplaceRows, ReplaceTable, UpsertRows, WritePlan
from twice.errors import InputMissing, TableChanged
from twice.targets.grain import check_cut, partition_grain
from twice.targets.keyed import survivors
from twice.targets.memory.rows import Rows
from twice.targets.memory.tables import (
    Intent,
    MemoryFile,
    Stage,
    StoredTable,
    Version,
    carry_out,
    changed_slices,
    check_partitions,
    check_staged,
    check_unchanged,
    count_rows,
    exchanged_rows,
    extends,
    files_of,
    held_token,
    inside,
    partition_column,
    referred_files,
    widened,
)
from twice.targets.schema import check_fit, check_named, intended
from twice.targets.side import another_side, refuse_other_names


class MemoryTarget:
    def __init__(self) -> None:
        self._tables: dict[str, StoredTable] = {}
        self._staged: dict[tuple[str, str], tuple[MemoryFile, ...]] = {}
        """By table and attempt."""
        self._lock = threading.RLock()

    def prepare(self, table: TableName, shape: Shape, layout: Layout, evolve: bool) -> PreparedTable:
        """Only looks. Dying here leaves everything as it was."""
        slice_column = layout.slice_column
        with self._lock:
            held = self._tables.get(table.name)
            columns = intended(shape, None if held is None else held.shape, evolve)
            if held is None:
                mark = None if slice_column is None else partition_grain(slice_column)
                mark = str(layout.cut) if layout.cut is not None else mark
                into = Intent(Shape(columns, partition_column(shape, slice_column)), mark, None)
            else:
                if not layout.any_partitions:
                    check_partitions(table, held, slice_column)
                check_cut(table.name, held.mark, layout.cut)
                into = Intent(Shape(columns, held.shape.partitioned_by), held.mark, held.shape)
            check_named(table.name, into.shape, layout)
            return PreparedTable(into.shape, held is not None, into)

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        held = self._tables.get(table.name)
        if held is None:
            return Published(None, dict.fromkeys(token_names, 0))
        number, version = held.latest
        owners = ownership(version.tokens) if token_names else Ownership()
        return Published(
            number, {token_name: version.tokens.get(token_name, 0) for token_name in token_names}, owners, held.id
        )

    def tokens(self, table: TableName, prefix: str) -> dict[str, Held]:
        held = self._tables.get(table.name)
        if held is None:
            return {}
        tokens = held.latest[1].tokens
        return {
            token_name: held_token(held, token_name, generation)
            for token_name, generation in tokens.items()
            if token_name.startswith(prefix)
        }

    def provenance(
        self,
        table: TableName,
        token_name: str,
        generation: int,
        at: int | None = None,  # noqa: ARG002
    ) -> CommitNote | None:
        held = self._tables.get(table.name)
        found = held_token(held, token_name, generation) if held else None
        return found.note if found else None

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        held = self._tables.get(table.name)
        versions = list(enumerate(held.versions))[since:] if held else []
        return tuple(
            Foreign(number, "WRITE")
            for (_, before), (number, after) in pairwise(versions)
            if after.note is None and changed_slices(before, after, slices)
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
            ChangedRange(version) if at is None or row[at] is None else ChangedRange(version, row[at], row[at])
            for version in range(since + 1, number + 1)
            for row in exchanged_rows(held.versions[version - 1], held.versions[version])
            if extends(held.shape, held.versions[version - 1].shape)
        ]
        exchanged = [
            ChangedRange(version)
            for version in range(since + 1, number + 1)
            if not extends(held.shape, held.versions[version - 1].shape)
        ]
        spans += exchanged
        return Touched(table.name, number, tuple(spans), held.id)

    def one_slice_only(self, table: TableName) -> str | None:  # noqa: ARG002 - a commit here takes any number
        return None

    def stage(
        self, table: TableName, frame: Rows | None, plan: WritePlan, attempt: str, *, into: PreparedTable | None = None
    ) -> Staged:
        """Dying here leaves rows under the attempt's name that no reader sees."""
        if isinstance(plan.write, ReplaceTable):
            return self._stage_table(table, plan.write, plan, attempt)
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
        files = files_of(rows, shape.partitioned_by, attempt)
        counts = count_rows(files, plan.slices)
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
            Stage(files, intent),
        )

    def duplicates(self, staged: Staged, columns: Sequence[str]) -> int | None:  # noqa: ARG002 - nothing counts here
        return None

    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        """Dying before the new version is appended publishes nothing; after it, everything."""
        plan = staged.plan
        if set(expected) != set(plan.compared):
            raise ValueError("a generation is expected of every token of the plan, and of no other")
        with self._lock:
            before = self.published(staged.table, plan.compared)
            if before.generations != dict(expected):
                return Lost(before)
            newer = self._newer(staged)
            if newer:
                return Lost(replace(before, generations={**before.generations, **newer}))
            stage: Stage = staged.handle
            if plan.read_at not in (None, before.version):
                raise TableChanged(
                    "the table changed after this task read it, so its rows may be out of date",
                    fix="Run the task again.",
                )
            held = self._tables.get(staged.table.name)
            check_unchanged(stage.into, None if held is None else held.shape)
            key = staged.table.name, staged.attempt
            check_staged(staged, self._staged.get(key))
            current = held.versions[-1] if held else Version()
            shape = stage.into.shape
            files, changes = carry_out(shape, widened(current.files, shape), staged)
            hit(Point.BEFORE_COMMIT)
            version = Version(files, {**current.tokens, **note.tokens}, note.counted(changes), shape)
            with uninterrupted():
                if held is None:
                    held = self._tables[staged.table.name] = StoredTable(shape, stage.into.mark, [Version(), version])
                else:
                    held.shape, held.mark = shape, stage.into.mark
                    held.versions.append(version)
                hit(Point.AFTER_COMMIT)
            self._staged.pop(key)
            return Landed(len(held.versions) - 1, changes)

    def discard(self, table: TableName, attempt: str, slices: Sequence[Slice]) -> int:
        """Dying here leaves the rest for the next call."""
        with self._lock:
            mine, seen = self._staged.get((table.name, attempt), ()), referred_files(self._tables.get(table.name))
            gone = {file.name for file in mine if inside(file.value, slices)} - seen
            self._staged[table.name, attempt] = tuple(file for file in mine if file.name not in gone)
            return len(gone)

    def forget(self, table: TableName, before: datetime) -> int:  # noqa: ARG002 - a version is all that is kept
        return 0

    def read(self, table: TableName, at: int | Staged | None = None) -> Rows:
        """Never waits for a writer."""
        if isinstance(at, Staged):
            stage: Stage = at.handle
            return Rows(stage.into.shape.columns, tuple(row for file in stage.files for row in file.rows))
        held = self._existing(table)
        number, version = held.latest
        if at is not None and not 0 <= at <= number:
            raise InputMissing(f"{table.name} has no version {at}")
        shape, rows = held.rows_at(version if at is None else held.versions[at])
        return Rows(shape.columns, rows)

    def check_exchange(self, table: TableName) -> None:
        """Nothing depends on a table in memory."""

    def drop_side(self, table: TableName, token_name: str) -> None:
        """Dying here has dropped it or not."""
        refuse_other_names(table)
        with self._lock:
            held = self._tables.get(table.name)
            if held is not None and token_name not in held.latest[1].tokens:
                raise not_ours(table)
            self._tables.pop(table.name, None)
            for key in [key for key in self._staged if key[0] == table.name]:
                self._staged.pop(key)

    def files(self, table: TableName) -> tuple[str, ...]:
        """The names of the files the current version refers to."""
        return tuple(file.name for file in self._existing(table).latest[1].files)

    def leftovers(self, table: TableName, attempt: str) -> tuple[str, ...]:
        """The names of an attempt's staged files that no version refers to."""
        with self._lock:
            seen = referred_files(self._tables.get(table.name))
            return tuple(file.name for file in self._staged.get((table.name, attempt), ()) if file.name not in seen)

    def _stage_table(self, table: TableName, verb: ReplaceTable, plan: WritePlan, attempt: str) -> Staged:
        held, side = self._existing(table), self._tables.get(verb.side)
        if side is None or verb.side_id not in (None, side.id):
            raise another_side(verb)
        into = Intent(side.shape, side.mark, held.shape)
        rows = self.read(TableName(verb.side), verb.at)
        files = files_of(rows, side.shape.partitioned_by, attempt)
        with self._lock:
            self._staged[table.name, attempt] = files
        hit(Point.IN_STAGE)
        names = tuple(file.name for file in files)
        counts = count_rows(files, plan.slices)
        return Staged(table, plan, attempt, len(rows.rows), counts, names, handle=Stage(files, into))

    def _newer(self, staged: Staged) -> dict[str, int]:
        """Slices of the task that were published since the exchange of its table was planned."""
        verb = staged.plan.write
        if not isinstance(verb, ReplaceTable):
            return {}
        tokens = self._existing(staged.table).latest[1].tokens
        return {n: g for n, g in tokens.items() if n.startswith(verb.prefix) and n not in staged.plan.compared}

    def _as_it_is(self, table: TableName) -> Intent:
        held = self._existing(table)
        return Intent(held.shape, held.mark, held.shape)

    def _existing(self, table: TableName) -> StoredTable:
        held = self._tables.get(table.name)
        if held is None:
            raise InputMissing(f"there is no table {table.name}", now="", fix="Run the task that writes it.")
        return held
