"""Engines: what computes rows and reads plans. Every one has its own tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from twice.core.audit import Measure
from twice.core.file_input import FileRead
from twice.core.ports.frame import Frame, Shape
from twice.core.since import CursorValue, Window
from twice.core.slice import Slice
from twice.core.time_scope import SliceColumn


@dataclass(frozen=True)
class Leaf:
    """One thing a plan reads. `identity` is None where its state cannot be versioned."""

    kind: str
    name: str
    identity: str | None
    version: int | None = None


PLAN, FUNCTION, ALLOWED = "plan", "function", "allowed"
"""Kinds of leaves that are no table: the expressions and constants of a plan, a function it calls, and something the
plan guard lets pass although it may differ."""

INPUT_FILES, INPUT_FILE, PARAM = "input files", "input file", "param"
"""Kinds of leaves that are declared and no table: all files that a slice reads of one input, one of them, a value. An
engine gives the first for a scan of such files, by the name of the input and without an identity: who listed them
knows it."""


@dataclass(frozen=True)
class Portion:
    """An input of several slices, before it was cut: `parts`: which `[start, end)` of the column each slice reads,
    by label."""

    frame: Frame
    column: str
    zone: str | None
    parts: Mapping[str, tuple[datetime, datetime]]


ALL_ROWS = "all rows"


@dataclass(frozen=True)
class Suspicion:
    """Something in the plan that may differ on the next run, and the result columns it reaches (`ALL_ROWS`, if it
    decides which rows there are)."""

    name: str
    columns: tuple[str, ...]
    why: str
    fix: str


@dataclass(frozen=True)
class Measured:
    """What was counted while the rows were written."""

    rows: int
    fingerprint: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Observed:
    """A frame that counts its rows as they pass. Call `read` only after the write succeeded."""

    frame: Frame
    read: Callable[[], Mapping[str, Measured]]
    """By slice label."""


class NeedsEngine(Exception):
    """Without an engine this cannot be answered."""


class Engine(Protocol):
    """What the runtime asks of the thing that computes: Spark, or plain rows in tests."""

    def fresh(self) -> Any:
        """A session for one run: UTC, ANSI, isolated from every other run."""

    def ending_jobs(self) -> AbstractContextManager[Callable[[], None]]:
        """A call by which another thread ends the jobs that this one has begun in the block, and no others."""

    def read_files(self, session: Any, wanted: FileRead) -> Frame:
        """The rows of exactly these files. None of them: no row, with the columns of the declared schema."""

    def cut(self, frame: Frame, column: str, start: datetime, end: datetime, zone: str | None) -> Frame:
        """The rows of `[start, end)` on a DATE or TIMESTAMP column."""

    def newest(self, frame: Frame, column: str) -> tuple[CursorValue | None, int]:
        """The greatest value of a cursor column, and how many rows have none."""

    def since(self, frame: Frame, column: str, window: Window) -> Frame:
        """The rows of a window on a cursor column; NULL is never inside."""

    def shape(self, frame: Frame, slice_column: SliceColumn | None) -> tuple[Frame, Shape]:
        """The result with its slice column, if it has one, added and checked against the scope column."""

    def conform(self, frame: Frame, shape: Shape, renamed: Mapping[str, str] | None = None) -> Frame:
        """The same rows with these columns, by name: cast up, and NULL where the frame has none of that name.
        `renamed`: the name in the shape, by the frame's."""

    def suspicions(self, frame: Frame) -> tuple[Suspicion, ...]:
        """What in the analysed plan is not the same on every run."""

    def leaves(self, frame: Frame, before: Sequence[Leaf] = ()) -> tuple[Leaf, ...]:
        """Every leaf of the plan, subqueries included. One whose files only rearrange those of a leaf of `before`
        is given as that leaf."""

    def leaves_of_each(
        self, frame: Frame, slices: Sequence[Slice], portions: Sequence[Portion]
    ) -> Mapping[str, tuple[Leaf, ...]]:
        """What each of several slices reads, by label: of a portion only the files of its own part, so that its inputs
        are the same whether it was computed alone or with others."""

    def outside(self, frame: Frame, cuts: Sequence[Frame], function: Callable[..., Any]) -> tuple[Leaf, ...]:
        """What the frame's rows depend on beside its tables: the expressions and constants of its plan, and the
        functions in it. `cuts` are the inputs as they were cut to the slices: where they were cut does not count.
        `function` is the task's: code of the package it is in counts like a project's, installed or not."""

    def observe(self, frame: Frame, slices: Sequence[Slice], measures: Sequence[Measure]) -> Observed:
        """Count, fingerprint and measure the rows of each slice while they are written."""

    def estimate(self, frame: Frame) -> int:
        """About how many rows a frame has, without a job over the data."""

    def totals(self, frame: Frame, slices: Sequence[Slice]) -> Mapping[str, Mapping[str, str | None]]:
        """By slice label: the sum of each numeric column, as text (None: no value). A read, by a job of its own."""

    def count(self, frame: Frame, slices: Sequence[Slice]) -> Mapping[str, int]:
        """By slice label: how many rows. A read, by a job of its own."""

    def duplicates(self, frame: Frame, columns: Sequence[str]) -> int:
        """How many rows share their values in these columns with an earlier row. NULL equals NULL."""

    def lost(self, frame: Frame, other: Frame, key: Sequence[str]) -> int:
        """How many rows have a key that no row of the other frame has, in the types of the other's columns. NULL
        equals NULL. A read of both, by a job of its own."""

    def sample(self, frame: Frame, slice_: Slice, count: int) -> tuple[Mapping[str, Any], ...]:
        """The first rows of a slice in the order of their columns, by column name."""
