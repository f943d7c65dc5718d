"""The frames that code reads, as they reach it: there a scenario disturbs them. A task gets frames, asks its run for
more, or reads by itself through Spark's readers; what it reads in another way is not reached, and named."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from twice.engine.catalyst import JavaObject, class_name, items
from twice.engine.lineage.scans import place_of
from twice.proof.play import NotApplicable

Frames = Callable[[DataFrame], DataFrame]
"""What a scenario does to each frame that is read."""

_NAMES = ("load", "table", "parquet", "csv", "json", "orc", "text", "xml", "jdbc")
READERS: tuple[tuple[type, str], ...] = (
    *((DataFrameReader, name) for name in _NAMES if hasattr(DataFrameReader, name)),
    (SparkSession, "table"),
)
"""PySpark's own methods that read. They may call each other."""

_IN_THE_PLAN = frozenset({"OneRowRelation", "Range", "LocalRelation", "LogicalRDD", "ExternalRDD"})
_ELSEWHERE = frozenset({"CTERelationRef", "UnionLoopRef"})
_within: ContextVar[bool] = ContextVar("twice_within_a_reader", default=False)


@dataclass
class Reads:
    """`disturb` is done to every frame that is read; `frames` counts them."""

    disturb: Frames | None = None
    frames: int = 0

    def __call__(self, frame: DataFrame) -> DataFrame:
        self.frames += 1
        return frame if self.disturb is None else self.disturb(frame)

    def through(self, reader: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        """That reader, with its frame disturbed once, whatever readers it calls itself."""

        @functools.wraps(reader)
        def read(*args: Any, **named: Any) -> DataFrame:
            if _within.get():
                return reader(*args, **named)
            token = _within.set(True)
            try:
                return self(reader(*args, **named))
            finally:
                _within.reset(token)

        return read

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While it is open, what any code reads through PySpark passes through here."""
        before = [(owner, name, getattr(owner, name)) for owner, name in READERS]
        for owner, name, original in before:
            setattr(owner, name, self.through(original))
        try:
            yield
        finally:
            for owner, name, original in before:
                setattr(owner, name, original)


@dataclass(frozen=True)
class DisturbedReads:
    """Whether a disturbance reaches what code reads: `frames` of it, and not what `passed` names."""

    frames: int
    passed: tuple[str, ...] = ()

    def needed(self, code: str) -> None:
        """A scenario that disturbs rows shows nothing where it reached none."""
        if self.frames:
            return
        past = f"{', '.join(self.passed)}, whose rows a proof cannot disturb"
        what = past if self.passed else "nothing whose rows a proof could disturb"
        raise NotApplicable(f"the {code} reads {what}: declare an input, or read through spark.read or spark.table")

    @property
    def but_for(self) -> str:
        return f"; not disturbed: {', '.join(self.passed)}, read in another way than spark.read" if self.passed else ""


def passed(frame: Any) -> tuple[str, ...]:
    """What a frame reads past `disturb.ordered`: the stored leaves of its plan that have none of its sorts above."""
    found: dict[str, None] = {}
    waiting: list[JavaObject] = [frame._jdf.queryExecution().analyzed()]
    while waiting:
        plan = waiting.pop()
        kind, below = _kind(plan), items(plan.children())
        if _is_ordered(kind, plan, below):
            continue
        waiting += [*below, *items(plan.subqueries())]
        if not below and kind not in _IN_THE_PLAN | _ELSEWHERE:
            found[_name(kind, plan)] = None
    return tuple(sorted(found))


def _is_ordered(kind: str, plan: JavaObject, below: list[JavaObject]) -> bool:
    if kind != "Sort" or getattr(plan, "global")() or _kind(below[0]) != "Repartition":
        return False
    return not below[0].shuffle() and int(below[0].numPartitions()) == 1


def _name(kind: str, leaf: JavaObject) -> str:
    return place_of(leaf.relation()) if kind == "LogicalRelation" else kind


def _kind(plan: JavaObject) -> str:
    return class_name(plan).rpartition(".")[2]
