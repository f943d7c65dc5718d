"""Spark frames as the runtime needs them: cut to an interval, shaped for their table, searched for duplicates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.closed import assert_never
from twice.core.local_day import turned_back
from twice.core.names.spark import quoted, type_text
from twice.core.ports import Column, Shape
from twice.core.since import CursorValue, Window, type_of
from twice.core.slice import Slice, SliceValue
from twice.core.time_scope import SliceColumn
from twice.engine.frames.columns import as_plain, declared, find, not_a_frame, refuse_twins
from twice.engine.frames.fingerprint import key_hash
from twice.engine.frames.slices import check_given, check_source, cursor_of, range_of, type_of_cursor
from twice.engine.session.session import run_of
from twice.errors import ResultRefused

_UNORDERED = re.compile(r"\bmap<|\bvariant\b")
_BYTES = 50


def columns_of(frame: DataFrame) -> tuple[Column, ...]:
    return tuple(Column(field.name, type_text(field.dataType)) for field in frame.schema.fields)


def conform(frame: DataFrame, shape: Shape, renamed: Mapping[str, str]) -> DataFrame:
    new = {old.lower(): name.lower() for old, name in renamed.items()}
    there = {new.get(name.lower(), name.lower()): name for name in frame.columns}
    columns = []
    for column in shape.columns:
        held = there.get(column.name.lower())
        value = sf.lit(None) if held is None else sf.col(quoted(held))
        columns.append(value.cast(column.type).alias(column.name))
    return frame.select(*columns)


def cut(frame: DataFrame, column: str, start: datetime, end: datetime, zone: str | None) -> DataFrame:
    wanted = range_of(columns_of(frame), column, start, end, zone)
    at = sf.col(quoted(wanted.column))
    return frame.where((at >= moment(wanted.low)) & (at < moment(wanted.high)))


def newest(frame: DataFrame, column: str) -> tuple[CursorValue | None, int]:
    """One job. As whole numbers: a timestamp on its way to Python would pass through this process's time zone."""
    cursor = cursor_of(columns_of(frame), column)
    at = sf.col(quoted(cursor.name))
    row = frame.agg(sf.max(_number(at, cursor.type)), sf.count_if(at.isNull())).first()
    assert row is not None
    value, nulls = row[0], int(row[1])
    if value is None or type_of_cursor(cursor.type) == "integer":
        return value, nulls
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    if type_of_cursor(cursor.type) == "date":
        return epoch.date() + timedelta(days=value), nulls
    return epoch + timedelta(microseconds=value), nulls


def since(frame: DataFrame, column: str, window: Window) -> DataFrame:
    cursor = cursor_of(columns_of(frame), column, type_of(window.low))
    at = sf.col(quoted(cursor.name))
    low, high = (_bound(value, cursor.type) for value in (window.low, window.high))
    return frame.where((at >= low) & ((at <= high) if window.closed else (at < high)))


def _number(at: SparkColumn, type_: str) -> SparkColumn:
    if type_ == "timestamp_ntz":
        at = at.cast("timestamp")  # the run's session is in UTC
    if type_of_cursor(type_) == "timestamp":
        return sf.unix_micros(at)
    return sf.unix_date(at) if type_ == "date" else at


def _bound(value: CursorValue, type_: str) -> SparkColumn:
    if isinstance(value, int):
        return sf.lit(value)
    return moment(value).cast("timestamp_ntz") if type_ == "timestamp_ntz" else moment(value)


def shape(result: Any, held: SliceColumn | None) -> tuple[DataFrame, Shape]:
    """The result with its slice column, checked. A slice value that contradicts its row's scope column becomes
    NULL: no slice owns it, so every target refuses the row, in the pass that writes it."""
    frame = _frame(result)
    columns = columns_of(frame)
    refuse_twins(columns)
    if held is None:
        return frame, Shape(columns)
    source = check_source(columns, held)
    if not held.derived:
        frame = frame.withColumnRenamed(source.name, held.name)
        return frame, Shape(columns_of(frame), held.name)
    given = check_given(columns, held)
    value = derived(held, sf.col(quoted(source.name)))
    if given is not None:
        stated = sf.col(quoted(given.name))
        value = sf.when(stated.eqNullSafe(value), stated)
        frame = frame.withColumnRenamed(given.name, held.name)
    frame = frame.withColumn(held.name, value)
    return frame, Shape(columns_of(frame), held.name)


def estimate(frame: DataFrame) -> int:
    """By what the optimiser knows about the files that are left after pruning: a row takes some 50 bytes in Parquet."""
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    if statistics.rowCount().isDefined():
        return int(str(statistics.rowCount().get()))
    return int(str(statistics.sizeInBytes())) // _BYTES


def duplicates(frame: DataFrame, columns: Sequence[str]) -> int:
    """Counts rows beyond the first of each key; NULL equals NULL.

    Distinct hashes prove distinct keys, and 8 bytes a row are cheaper to shuffle than keys are. Only when two
    hashes meet are the keys themselves compared.
    """
    there = columns_of(frame)
    names = [quoted(declared(there, name, "audit.unique").name) for name in columns]
    if not _surplus(frame.groupBy(key_hash(frame, columns).alias("key")).count()):
        return 0
    return _surplus(frame.groupBy(*names).count())


def lost(frame: DataFrame, other: DataFrame, key: Sequence[str]) -> int:
    """How many rows have a key that no row of the other frame has, in its types; NULL equals NULL."""
    theirs = [declared(columns_of(other), name, "the key") for name in key]
    names = [f"key{at}" for at in range(len(key))]
    mine = frame.select(
        *(
            sf.col(quoted(declared(columns_of(frame), column.name, "the key").name)).cast(column.type).alias(name)
            for name, column in zip(names, theirs, strict=True)
        )
    ).alias("mine")
    kept = other.select(*(sf.col(quoted(column.name)).alias(name) for name, column in zip(names, theirs, strict=True)))
    kept = kept.alias("kept")
    same = [sf.col(f"mine.{name}").eqNullSafe(sf.col(f"kept.{name}")) for name in names]
    return mine.join(kept, same, "left_anti").count()


def sample(frame: DataFrame, slice_: Slice, count: int) -> tuple[Mapping[str, Any], ...]:
    """The first rows of a slice in the order of those columns that have one. A merged table may not hold the column
    that its slices are cut by: then the first rows of all."""
    columns = columns_of(frame)
    bounds = slice_.bounds
    if bounds is not None and find(columns, bounds.column) is not None:
        at = sf.col(quoted(bounds.column))
        frame = frame.where((at >= moment(bounds.low)) & (at < moment(bounds.high)))
    ordered = [quoted(column.name) for column in columns if not _UNORDERED.search(column.type)]
    found = frame.orderBy(*ordered).limit(count).collect() if ordered else frame.limit(count).collect()
    return tuple({name: as_plain(value) for name, value in row.asDict().items()} for row in found)


def derived(held: SliceColumn, source: SparkColumn) -> SparkColumn:
    """The slice column's value, from the scope column, in a session in UTC."""
    if held.source_type == "timestamp" and held.type == "date":
        source = _day(source, held.zone or "UTC")
    match held.grain:
        case "month":
            return sf.trunc(source, "MM")
        case "day":
            return source
        case "hour":
            return _window(source, 60)
        case "window":
            return _window(source, held.minutes)
        case _:
            assert_never(held.grain)


def _window(source: SparkColumn, minutes: int) -> SparkColumn:
    width = sf.lit(minutes * 60_000_000).cast("bigint")
    micros = sf.unix_micros(source)
    return sf.timestamp_micros(micros - sf.pmod(micros, width))


def _day(source: SparkColumn, zone: str) -> SparkColumn:
    """What the zone's clocks show, but a midnight that comes again has not come yet: as `core.local_day.day_of`."""
    day = sf.to_date(sf.from_utc_timestamp(source, zone))
    for first, last, before in turned_back(zone):
        day = sf.when((source >= moment(first)) & (source < moment(last)), moment(before)).otherwise(day)
    return day


def moment(value: SliceValue) -> SparkColumn:
    """A typed literal. Not `lit(datetime)`: that passes through the local time zone of this process."""
    if isinstance(value, datetime):
        return sf.expr(f"TIMESTAMP_LTZ '{value.astimezone(timezone.utc).isoformat(sep=' ')}'")
    return sf.expr(f"DATE '{value.isoformat()}'")


def _surplus(counted: DataFrame) -> int:
    row = counted.agg(sf.sum(sf.col("count") - 1).alias("surplus")).first()
    return int(row["surplus"] or 0) if row is not None else 0


def _frame(result: Any) -> DataFrame:
    if not isinstance(result, DataFrame):
        raise not_a_frame(result)
    if result.isStreaming:
        raise ResultRefused("the result is a stream, which has no end to publish", fix="Read it with spark.read.")
    if run_of(result.sparkSession) is None:
        raise ResultRefused(
            "the result was made with another Spark session than the run's, which may use other settings",
            fix="Build it from the task's inputs, or take the session from the run: def task(run, …): run.spark.",
        )
    try:
        result.schema  # noqa: B018 - a schema that cannot be analysed fails here, not while writing
    except AnalysisException as error:
        raise ResultRefused(f"Spark cannot analyse the result: {error}") from error
    return result
