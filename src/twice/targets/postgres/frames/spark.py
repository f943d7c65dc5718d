"""Spark's frames in and out of PostgreSQL: Arrow batches between a task and its Python, never row by row.

Each task connects to the server itself. Rows go out by a function over a partition's batches: a data source of Python's
would begin two more processes for each write. Rows come in by a data source: only it learns what is filtered. How to
connect travels inside the pickled code, not among Spark's options: options are shown in plans and logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.functions import col
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from twice.core.lineage import AT_SNAPSHOT
from twice.core.names.spark import quoted
from twice.core.ports import Column
from twice.errors import StageMismatch, TableChanged
from twice.targets.active_session import as_active_session
from twice.targets.postgres.frames.arrow import converted
from twice.targets.postgres.read.query import Query
from twice.targets.postgres.read.reading import begin_reading, split
from twice.targets.postgres.server.names import column
from twice.targets.postgres.server.server import Server
from twice.targets.postgres.server.types import TableColumn
from twice.targets.postgres.write.stage import Loading, Taken, copy_part, seal

INPUT = "twice_input"
"""Under this option a plan says what is read, for the record of a run's inputs."""

_Function = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_TAKEN = "take bigint, rows bigint"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class SparkFrames:
    """Bound to one run's session (`spark.newSession()`), whose settings are changed."""

    lazy = True

    def __init__(self, session: SparkSession, tasks: int) -> None:
        self._session = session
        self._tasks = tasks
        session.conf.set(_PUSHDOWN, "true")

    def columns(self, frame: DataFrame) -> tuple[Column, ...]:
        return tuple(Column(each.name, each.dataType.simpleString()) for each in frame.schema.fields)

    def copy(self, frame: DataFrame, wanted: Sequence[Column], loading: Loading) -> None:
        """Spark reports the takes of those tasks that count, however often it tried."""
        rows = _fitted(frame, wanted).coalesce(self._tasks)
        try:
            with as_active_session(self._session):
                taken = [Taken(*row) for row in _over_batches(rows, _copying(loading), _TAKEN).collect()]
        except Exception as error:
            for raised in (StageMismatch, TableChanged):
                if f"{raised.__module__}.{raised.__qualname__}" in str(error):
                    raise raised(_last_line(str(error), raised), fix="Run the task again.") from error
            raise
        seal(loading, taken)

    def read(self, server: Server, query: Query) -> DataFrame:
        parts = min(self._tasks, self._session.sparkContext.defaultParallelism)
        reading = _Reading(server.secret, server.settings(idle=0).as_string(None), query, parts)
        schema = ", ".join(f"{quoted(held.name)} {held.type}" for held in query.columns)
        at = f"{AT_SNAPSHOT}{query.snapshot}" if query.snapshot else ""
        reader = self._session.read.format(self._register(_source(reading))).schema(schema)
        with as_active_session(self._session):
            return reader.option(INPUT, f"{server.name}:{query.relation}{at}").load()

    def _register(self, source: type[DataSource]) -> str:
        self._session.dataSource.register(source)
        return source.name()


@dataclass(frozen=True)
class _Reading:
    """What travels to the tasks that read."""

    conninfo: str = field(repr=False)
    settings: str
    query: Query
    parts: int


@dataclass
class _Range(InputPartition):
    condition: str


class _Reader(DataSourceReader):
    def __init__(self, reading: _Reading) -> None:
        self._reading = reading
        self._conditions: list[str] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        held = {each.name.lower(): each for each in self._reading.query.columns}
        for each in filters:
            condition = condition_of(each, held)
            if condition is None:
                yield each
            else:
                self._conditions.append(condition)

    def partitions(self) -> Sequence[InputPartition]:
        with psycopg.connect(self._reading.conninfo, autocommit=True) as connection:
            text = self._reading.query.text(*self._conditions)
            ranges = split(connection, self._reading.query.relation, text, self._reading.parts)
        return [_Range(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        reading = self._reading
        assert isinstance(partition, _Range)
        more = [*self._conditions, *([partition.condition] if partition.condition else [])]
        with adbc.connect(reading.conninfo) as connection, connection.cursor() as cursor:
            begin_reading(cursor, reading.query, reading.settings)
            cursor.execute(reading.query.text(*more))
            for batch in cursor.fetch_record_batch():
                yield converted(batch, reading.query.columns)


def _copying(loading: Loading) -> _Function:
    def copying(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = copy_part(loading, iter(batches))
        yield pa.RecordBatch.from_pydict({"take": [taken.take], "rows": [taken.rows]})

    return copying


def _over_batches(frame: DataFrame, function: _Function, schema: str) -> DataFrame:
    """`frame.mapInArrow`, without the pandas that PySpark 4.1 asks for there and nowhere uses."""
    made = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = made(*(quoted(name) for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


def _source(reading: _Reading) -> type[DataSource]:
    name = f"twice_postgres_{uuid4().hex}"

    class PostgresSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def reader(self, schema: StructType) -> _Reader:  # noqa: ARG002 - Spark's signature
            return _Reader(reading)

    return PostgresSource


def _fitted(frame: DataFrame, wanted: Sequence[Column]) -> DataFrame:
    """The wanted columns, in their order and types; that they fit was checked before."""
    given = {each.name.lower(): each.name for each in frame.schema.fields}
    return frame.select(*(col(quoted(given[each.name.lower()])).cast(each.type).alias(each.name) for each in wanted))


def _last_line(text: str, raised: type[StageMismatch]) -> str:
    lines = [line for line in text.splitlines() if raised.__qualname__ in line]
    return lines[-1].partition(": ")[2].strip() if lines else text


_COMPARED = {
    EqualTo: "{} = {}",
    GreaterThan: "{} > {}",
    GreaterThanOrEqual: "{} >= {}",
    LessThan: "{} < {}",
    LessThanOrEqual: "{} <= {}",
}


def condition_of(filter_: Filter, held: Mapping[str, TableColumn]) -> str | None:
    """None for a filter that Spark must apply itself: text is left to it, which PostgreSQL compares by collation."""
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    found = held.get(path[0].lower()) if len(path) == 1 else None
    if found is None:
        return None
    if isinstance(filter_, IsNotNull):
        return sql.SQL("{} IS NOT NULL").format(column(found.name)).as_string(None)
    form = _COMPARED.get(type(filter_))
    value = getattr(filter_, "value", None)
    if form is None or not _exact(found, value):
        return None
    return sql.SQL(form).format(column(found.name), sql.Literal(value)).as_string(None)


def _exact(held: TableColumn, value: object) -> bool:
    if held.type == "date":
        return isinstance(value, date) and not isinstance(value, datetime)
    if held.type in ("timestamp", "timestamp_ntz"):
        return isinstance(value, datetime) and (value.tzinfo is not None) == (held.type == "timestamp")
    if held.type in ("smallint", "int", "bigint"):
        return isinstance(value, int) and not isinstance(value, bool)
    return held.type.startswith("decimal") and isinstance(value, (Decimal, int)) and not isinstance(value, bool)
