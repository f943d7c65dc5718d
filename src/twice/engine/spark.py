"""The engine on Spark: each method hands over to the module that knows how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from twice.core.audit import Measure
from twice.core.file_input import FileRead
from twice.core.ports import Frame, Leaf, Observed, Portion, Shape, Suspicion
from twice.core.since import CursorValue, Window
from twice.core.slice import Slice
from twice.core.time_scope import SliceColumn
from twice.engine.frames import files, frames
from twice.engine.frames.observe import count, observe, totals
from twice.engine.guard import guard
from twice.engine.lineage import leaves as lineage
from twice.engine.lineage import portions as portions_
from twice.engine.lineage.non_table_inputs import outside
from twice.engine.session.interrupts import ending_jobs
from twice.engine.session.session import run_session


@dataclass(frozen=True)
class SparkEngine:
    """`base` is the embedded session or the caller's own; no run works in it directly."""

    base: SparkSession

    def fresh(self) -> SparkSession:
        return run_session(self.base)

    def ending_jobs(self) -> AbstractContextManager[Callable[[], None]]:
        return ending_jobs(self.base)

    def read_files(self, session: SparkSession, wanted: FileRead) -> DataFrame:
        return files.read_files(session, wanted)

    def cut(self, frame: Frame, column: str, start: datetime, end: datetime, zone: str | None) -> DataFrame:
        return frames.cut(frame, column, start, end, zone)

    def newest(self, frame: Frame, column: str) -> tuple[CursorValue | None, int]:
        return frames.newest(frame, column)

    def since(self, frame: Frame, column: str, window: Window) -> DataFrame:
        return frames.since(frame, column, window)

    def shape(self, frame: Frame, slice_column: SliceColumn | None) -> tuple[DataFrame, Shape]:
        return frames.shape(frame, slice_column)

    def conform(self, frame: Frame, shape: Shape, renamed: Mapping[str, str] | None = None) -> DataFrame:
        return frames.conform(frame, shape, renamed or {})

    def suspicions(self, frame: Frame) -> tuple[Suspicion, ...]:
        return guard.suspicions(frame)

    def leaves(self, frame: Frame, before: Sequence[Leaf] = ()) -> tuple[Leaf, ...]:
        return lineage.leaves(frame, before)

    def leaves_of_each(
        self, frame: Frame, slices: Sequence[Slice], portions: Sequence[Portion]
    ) -> Mapping[str, tuple[Leaf, ...]]:
        return portions_.leaves_of_each(frame, slices, portions)

    def outside(self, frame: Frame, cuts: Sequence[Frame], function: Callable[..., Any]) -> tuple[Leaf, ...]:
        return outside(frame, cuts, function)

    def observe(self, frame: Frame, slices: Sequence[Slice], measures: Sequence[Measure]) -> Observed:
        return observe(frame, slices, measures)

    def estimate(self, frame: Frame) -> int:
        return frames.estimate(frame)

    def totals(self, frame: Frame, slices: Sequence[Slice]) -> Mapping[str, Mapping[str, str | None]]:
        return totals(frame, slices)

    def count(self, frame: Frame, slices: Sequence[Slice]) -> Mapping[str, int]:
        return count(frame, slices)

    def duplicates(self, frame: Frame, columns: Sequence[str]) -> int:
        return frames.duplicates(frame, columns)

    def lost(self, frame: Frame, other: Frame, key: Sequence[str]) -> int:
        return frames.lost(frame, other, key)

    def sample(self, frame: Frame, slice_: Slice, count: int) -> tuple[Mapping[str, Any], ...]:
        return frames.sample(frame, slice_, count)
