"""An engine over plain rows: no JVM. The runtime's own tests run on it, with the memory target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, cast

from twice.core.audit import Measure
from twice.core.closed import assert_never
from twice.core.file_input import FileRead
from twice.core.ports import Column, Frame, Leaf, Measured, Observed, Portion, Shape, Suspicion
from twice.core.since import CursorValue, Window, type_of
from twice.core.slice import Slice
from twice.core.time_scope import SliceColumn
from twice.engine.frames.columns import as_plain, declared, find, is_numeric, not_a_frame, refuse_twins
from twice.engine.frames.plain_files import read_files
from twice.engine.frames.slices import check_given, check_source, cursor_of, range_of, value_of
from twice.errors import DeclarationError


class FrameOfRows(Protocol):
    """What a frame must have: `targets.memory.rows.Rows` does."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]: ...


@dataclass(frozen=True)
class PlainEngine:
    """Everything is computed at once, so a frame's content is its own identity."""

    def fresh(self) -> None:
        return None

    def ending_jobs(self) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(lambda: None)  # it has none

    def read_files(self, session: None, wanted: FileRead) -> Frame:  # noqa: ARG002 - there is no session
        return read_files(wanted)

    def cut(self, frame: Frame, column: str, start: datetime, end: datetime, zone: str | None) -> Frame:
        cut = range_of(frame.columns, column, start, end, zone)
        at = _index(frame, cut.column)
        return _kept(frame, lambda row: row[at] is not None and cut.low <= row[at] < cut.high)

    def newest(self, frame: Frame, column: str) -> tuple[CursorValue | None, int]:
        at = _index(frame, cursor_of(frame.columns, column).name)
        values = [row[at] for row in frame.rows if row[at] is not None]
        return max(values, default=None), len(frame.rows) - len(values)

    def since(self, frame: Frame, column: str, window: Window) -> Frame:
        at = _index(frame, cursor_of(frame.columns, column, type_of(window.low)).name)
        low, high = window.low, window.high
        return _kept(
            frame, lambda row: row[at] is not None and (low <= row[at] < high or (window.closed and row[at] == high))
        )

    def shape(self, frame: Frame, slice_column: SliceColumn | None) -> tuple[Frame, Shape]:
        if not hasattr(frame, "columns") or not hasattr(frame, "rows"):
            raise not_a_frame(frame)
        refuse_twins(cast(FrameOfRows, frame).columns)
        if slice_column is None:
            return frame, Shape(frame.columns)
        held = slice_column
        source = _index(frame, check_source(frame.columns, held).name)
        if held.derived:
            frame = _with(frame, held, lambda row: value_of(held, row[source]))
        return frame, Shape(frame.columns, held.name)

    def conform(self, frame: Frame, shape: Shape, renamed: Mapping[str, str] | None = None) -> Frame:
        new = {old.lower(): name.lower() for old, name in (renamed or {}).items()}
        names = [new.get(column.name.lower(), column.name.lower()) for column in frame.columns]
        at = {name: place for place, name in enumerate(names)}
        places = [at.get(column.name.lower()) for column in shape.columns]
        rows = tuple(tuple(None if place is None else row[place] for place in places) for row in frame.rows)
        return replace(frame, columns=shape.columns, rows=rows)

    def suspicions(self, frame: Frame) -> tuple[Suspicion, ...]:  # noqa: ARG002 - rows at hand have no plan
        return ()

    def leaves(self, frame: Frame, before: Sequence[Leaf] = ()) -> tuple[Leaf, ...]:  # noqa: ARG002 - never rearranged
        return (Leaf("rows", "rows", _digest(frame.columns, frame.rows)),)

    def leaves_of_each(
        self,
        frame: Frame,
        slices: Sequence[Slice],
        portions: Sequence[Portion],  # noqa: ARG002 - a slice's rows are its own identity
    ) -> Mapping[str, tuple[Leaf, ...]]:
        return {slice_.label: self.leaves(_inside(frame, slice_)) for slice_ in slices}

    def outside(
        self,
        frame: Frame,  # noqa: ARG002 - all is in the rows
        cuts: Sequence[Frame],  # noqa: ARG002
        function: Callable[..., Any],  # noqa: ARG002
    ) -> tuple[Leaf, ...]:
        return ()

    def observe(self, frame: Frame, slices: Sequence[Slice], measures: Sequence[Measure]) -> Observed:
        def read() -> Mapping[str, Measured]:
            return {slice_.label: _measured(_inside(frame, slice_), measures) for slice_ in slices}

        return Observed(frame, read)

    def estimate(self, frame: Frame) -> int:
        return len(frame.rows)

    def totals(self, frame: Frame, slices: Sequence[Slice]) -> Mapping[str, Mapping[str, str | None]]:
        numeric = [column.name for column in frame.columns if is_numeric(column.type)]
        return {slice_.label: {name: _sum(_inside(frame, slice_), name) for name in numeric} for slice_ in slices}

    def count(self, frame: Frame, slices: Sequence[Slice]) -> Mapping[str, int]:
        return {slice_.label: len(_inside(frame, slice_).rows) for slice_ in slices}

    def duplicates(self, frame: Frame, columns: Sequence[str]) -> int:
        order = [_index(frame, column) for column in columns]
        keys = [tuple(row[at] for at in order) for row in frame.rows]
        return len(keys) - len(set(keys))

    def lost(self, frame: Frame, other: Frame, key: Sequence[str]) -> int:
        mine, theirs = ([_index(each, column) for column in key] for each in (frame, other))
        kept = {tuple(row[at] for at in theirs) for row in other.rows}
        return sum(tuple(row[at] for at in mine) not in kept for row in frame.rows)

    def sample(self, frame: Frame, slice_: Slice, count: int) -> tuple[Mapping[str, Any], ...]:
        names = [column.name for column in frame.columns]
        held = slice_.bounds is None or find(frame.columns, slice_.bounds.column) is None
        rows = sorted(
            (frame if held else _inside(frame, slice_)).rows,
            key=lambda row: [(value is not None, value) for value in row],
        )
        return tuple(dict(zip(names, map(as_plain, row), strict=True)) for row in rows[:count])


def _measured(frame: Frame, measures: Sequence[Measure]) -> Measured:
    counts = {measure.name: sum(_breaks(frame, row, measure) for row in frame.rows) for measure in measures}
    return Measured(len(frame.rows), _digest(frame.columns, frame.rows), counts)


def _sum(frame: Frame, name: str) -> str | None:
    values = [value for row in frame.rows if (value := row[_index(frame, name)]) is not None]
    return str(sum(values)) if values else None


def _breaks(frame: Frame, row: tuple[Any, ...], measure: Measure) -> bool:
    audit = measure.audit
    if audit.kind == "expression":
        return False  # Spark SQL, which cannot be read here
    value = row[_index(frame, measure.column or audit.columns[0])]
    match audit.kind:
        case "not_null":
            return value is None
        case "accepted":
            return value is not None and value not in audit.values
        case "between":
            return value is not None and not audit.low <= value <= audit.high
        case "unique" | "rows" | "not_shrunk" | "custom":
            raise DeclarationError(f"the audit {audit.name} cannot be counted while writing")
        case _:
            assert_never(audit.kind)


def _inside(frame: Frame, slice_: Slice) -> Frame:
    if slice_.bounds is None:
        return frame
    bounds = slice_.bounds
    at = _index(frame, bounds.column)
    return _kept(frame, lambda row: bounds.contain(row[at]))


def _with(frame: Frame, held: SliceColumn, value: Callable[[tuple[Any, ...]], Any]) -> Frame:
    """The slice column added, or the given one checked: where it contradicts its row, no slice owns the row."""
    given = check_given(frame.columns, held)
    if given is None:
        rows = tuple((*row, value(row)) for row in frame.rows)
        return replace(frame, columns=(*frame.columns, Column(held.name, held.type)), rows=rows)
    at = _index(frame, given.name)
    checked = (row[at] if row[at] == value(row) else None for row in frame.rows)
    rows = tuple((*row[:at], stated, *row[at + 1 :]) for row, stated in zip(frame.rows, checked, strict=True))
    return replace(frame, rows=rows)


def _kept(frame: Frame, keep: Any) -> Frame:
    return replace(frame, rows=tuple(row for row in frame.rows if keep(row)))


def _digest(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> str:
    """Order-free: columns by name, rows as a multiset."""
    order = sorted(range(len(columns)), key=lambda at: columns[at].name.lower())
    lines = sorted(repr([row[at] for at in order]) for row in rows)
    head = repr([(columns[at].name.lower(), columns[at].type) for at in order])
    return hashlib.blake2b("\n".join([head, *lines]).encode(), digest_size=16).hexdigest()


def _index(frame: Frame, name: str) -> int:
    return [column.name for column in frame.columns].index(declared(frame.columns, name, "the task").name)
