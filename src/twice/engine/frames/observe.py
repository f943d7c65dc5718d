"""Counting while writing: rows, fingerprint and audit measures of each slice, of the very rows that are written.

The row hashes are computed in a projection below the counting node, where Spark compiles them with the rest of the
plan; the node itself only adds up longs. The columns made for it are dropped above it and never written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from math import gcd

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from twice.core.audit import Measure
from twice.core.names.spark import quoted
from twice.core.ports import Column, Measured, Observed
from twice.core.slice import Bounds, Slice, SliceValue
from twice.engine.frames.columns import is_numeric
from twice.engine.frames.fingerprint import HALVES, digest, halves, row_hashes
from twice.engine.frames.frames import columns_of, moment
from twice.engine.frames.measures import broken
from twice.errors import StageMismatch

_IN_FLIGHT = 6
"""Up to so many slices, counting in flight costs less than a second look at the rows."""
_PATIENCE_S = 60.0
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class _Names:
    """Columns that live only inside the observed plan."""

    halves: tuple[str, ...]
    slice: str
    flags: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.halves, self.slice, *self.flags)


def observe(frame: DataFrame, slices: Sequence[Slice], measures: Sequence[Measure]) -> Observed:
    """The same rows, counted as they are written. One action only: a second one is not counted.

    Rows of several slices come brought together by slice: else every task would write a file into every one of them.
    """
    if len(slices) > 1:
        frame = _gathered(frame, slices)
    if len(slices) > _IN_FLIGHT:
        return _observe_batch(_shuffled(frame), slices, measures)
    names, made = _made(frame, slices, measures)
    several = len(slices) > 1
    counted = [
        sf.expr(aggregate).alias(f"{index}.{position}")
        for index in range(len(slices))
        for position, aggregate in enumerate(_aggregates(names, index if several else None))
    ]
    observation = Observation()
    observed = frame.withColumns(made).observe(observation, *counted)
    columns = columns_of(frame)

    def read() -> Mapping[str, Measured]:
        seen = _reported(observation)
        width = range(1 + HALVES + len(measures))
        numbers = [[seen[f"{index}.{position}"] or 0 for position in width] for index in range(len(slices))]
        return {s.label: _measured(columns, row, measures) for s, row in zip(slices, numbers, strict=True)}

    return Observed(observed.drop(*names.all), read)


def totalled(frame: DataFrame, *numbers: SparkColumn) -> tuple[DataFrame, Callable[[], tuple[int, ...]]]:
    """The same frame, and the sums of some numbers of its rows, once it is written."""
    observation = Observation()
    names = [f"n{at}" for at in range(len(numbers))]
    observed = frame.observe(observation, *(sf.sum(n).alias(name) for n, name in zip(numbers, names, strict=True)))

    def read() -> tuple[int, ...]:
        seen = _reported(observation)
        return tuple(seen[name] or 0 for name in names)

    return observed, read


def totals(frame: DataFrame, slices: Sequence[Slice]) -> Mapping[str, Mapping[str, str | None]]:
    """The sum of every numeric column of each slice: how much a restated slice changed. One job. A sum too great for
    its type is none, not an error."""
    names = [(column.name, column.type) for column in columns_of(frame) if is_numeric(column.type)]
    # A sum of whole numbers outgrows their type before it outgrows a decimal.
    wide = [f"cast({quoted(n)} AS decimal(38,0))" if t.endswith("int") else quoted(n) for n, t in names]
    sums = [sf.expr(f"cast(try_sum({column}) AS string)").alias(f"s{at}") for at, column in enumerate(wide)]
    at = sf.lit(0) if slices[0].bounds is None else slice_number(slices)
    rows = frame.withColumn("__twice_slice", at).where("__twice_slice >= 0").groupBy("__twice_slice")
    found = {row[0]: row[1:] for row in rows.agg(sf.count(sf.lit(1)), *sums).collect()}
    nothing = (0,) + (None,) * len(names)
    return {
        slice_.label: dict(zip((name for name, _ in names), found.get(place, nothing)[1:], strict=True))
        for place, slice_ in enumerate(slices)
    }


def count(frame: DataFrame, slices: Sequence[Slice]) -> Mapping[str, int]:
    """How many rows of each slice a frame holds. One job."""
    bounds = [slice_.bounds for slice_ in slices if slice_.bounds is not None]
    if not bounds:
        return {slice_.label: frame.count() for slice_ in slices}
    # Cut first: files of other slices are not opened.
    at, low, high = sf.col(quoted(bounds[0].column)), min(b.low for b in bounds), max(b.high for b in bounds)
    near = frame.where((at >= moment(low)) & (at < moment(high))).select(slice_number(slices).alias("at"))
    found = {row[0]: int(row[1]) for row in near.groupBy("at").count().collect()}
    return {slice_.label: found.get(place, 0) for place, slice_ in enumerate(slices)}


def _observe_batch(frame: DataFrame, slices: Sequence[Slice], measures: Sequence[Measure]) -> Observed:
    """The rows of many slices are grouped by slice after they were written.

    Counting in flight costs each row once per slice: for a month of days more than the write itself.
    """
    names, made = _made(frame, slices, measures)
    columns = columns_of(frame)

    def read() -> Mapping[str, Measured]:
        aggregates = [sf.expr(text).alias(f"n{at}") for at, text in enumerate(_aggregates(names, None))]
        grouped = frame.withColumns(made).where(f"{names.slice} >= 0").groupBy(names.slice).agg(*aggregates)
        found = {row[0]: [number or 0 for number in row[1:]] for row in grouped.collect()}
        nothing = [0] * (1 + HALVES + len(measures))
        return {s.label: _measured(columns, found.get(at, nothing), measures) for at, s in enumerate(slices)}

    return Observed(frame, read)


def _gathered(frame: DataFrame, slices: Sequence[Slice]) -> DataFrame:
    """Rebalancing still splits a slice that is too big for one file."""
    bounds = slices[0].bounds
    assert bounds is not None, "several slices, and one of them is the whole table"
    return frame.hint("rebalance", sf.col(quoted(bounds.column)))


def _shuffled(frame: DataFrame) -> DataFrame:
    """Shuffled now, to be read twice: by the write and by the count. The task's own code is evaluated once; keeping
    the rows in a cache beside the shuffle took twice as long as reading the shuffle again. Spark removes it with the
    frame."""
    session, shuffled = frame.sparkSession, frame._jdf
    rows = shuffled.queryExecution().toRdd()
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, shuffled.schema(), False), session)


def _made(
    frame: DataFrame, slices: Sequence[Slice], measures: Sequence[Measure]
) -> tuple[_Names, dict[str, SparkColumn]]:
    names = _names(frame, measures)
    made = dict(zip(names.halves, halves(*row_hashes(frame)), strict=True))
    made |= {flag: broken(frame, measure) for flag, measure in zip(names.flags, measures, strict=True)}
    if len(slices) > 1:
        made[names.slice] = slice_number(slices)
    return names, made


def _measured(columns: Sequence[Column], numbers: Sequence[int], measures: Sequence[Measure]) -> Measured:
    rows, sums, counts = numbers[0], numbers[1 : 1 + HALVES], numbers[1 + HALVES :]
    names = [measure.name for measure in measures]
    return Measured(rows, digest(columns, rows, sums), dict(zip(names, counts, strict=True)))


def _names(frame: DataFrame, measures: Sequence[Measure]) -> _Names:
    prefix = "__twice"
    while any(name.lower().startswith(prefix) for name in frame.columns):
        prefix += "_"
    flags = tuple(f"{prefix}_m{index}" for index in range(len(measures)))
    return _Names(tuple(f"{prefix}_h{index}" for index in range(HALVES)), f"{prefix}_slice", flags)


def _aggregates(names: _Names, index: int | None) -> list[str]:
    """Row count, four sums of hash halves, one count per measure: of all rows, or of those of one slice."""
    if index is None:
        return ["count(1)", *(f"sum({half})" for half in names.halves), *(f"count_if({flag})" for flag in names.flags)]
    inside = f"{names.slice} = {index}"
    return [
        f"count_if({inside})",
        *(f"sum(CASE WHEN {inside} THEN {half} ELSE 0L END)" for half in names.halves),
        *(f"count_if({inside} AND {flag})" for flag in names.flags),
    ]


def slice_number(slices: Sequence[Slice]) -> SparkColumn:
    """The position of a row's slice; NULL for a row of none.

    All slices begin and end on multiples of one step, so a table of steps answers at once, however many slices
    there are. A chain of comparisons would outgrow what the JVM compiles.
    """
    bounds = [slice_.bounds for slice_ in slices]
    assert all(bounds), "several slices, and one of them is the whole table"
    known = [bound for bound in bounds if isinstance(bound, Bounds)]
    low, high = min(bound.low for bound in known), max(bound.high for bound in known)
    step = 0
    for bound in known:
        step = gcd(step, _units(low, bound.low), _units(low, bound.high))
    table = ["-1"] * (_units(low, high) // step)
    for index, bound in enumerate(known):
        begin, end = _units(low, bound.low) // step, _units(low, bound.high) // step
        table[begin:end] = [str(index)] * (end - begin)
    column = quoted(known[0].column)
    offset = (
        f"unix_micros({column}) - {_micros(low)}"
        if isinstance(low, datetime)
        else f"cast(datediff({column}, DATE '{low.isoformat()}') AS bigint)"
    )
    # One literal: the optimiser folds it to an array before any row is seen.
    lookup = f"get(cast(split('{','.join(table)}', ',') AS array<int>), cast(({offset}) div {step} AS int))"
    at = sf.col(column)
    return sf.when((at >= moment(low)) & (at < moment(high)), sf.expr(lookup))


def _units(low: SliceValue, value: SliceValue) -> int:
    """How far a bound is from the first one: days for dates, microseconds for instants."""
    if isinstance(low, datetime) and isinstance(value, datetime):
        return (value - low) // _MICROSECOND
    return (_day(value) - _day(low)).days


def _day(value: SliceValue) -> date:
    return value.date() if isinstance(value, datetime) else value


def _micros(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=timezone.utc)) // _MICROSECOND


def _reported(observation: Observation) -> Mapping[str, int | None]:
    """Spark reports after the action, on its own thread. Waiting for ever would hide that nothing was written."""
    handle = observation._jo
    assert handle is not None
    deadline = time.monotonic() + _PATIENCE_S
    while not handle.future().isCompleted():
        if time.monotonic() > deadline:
            raise StageMismatch(
                "Spark reported no counts for the rows it wrote",
                fix="Was the observed frame written at all? Run it again; it looks first.",
            )
        time.sleep(0.005)
    return observation.get
