"""Spark's frames in and out of PostgreSQL, through Spark's Python data sources: Arrow batches, never row by row.

Each task speaks to the server itself. How to connect travels inside the pickled source, not among Spark's options:
options are shown in plans and logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from twice.core.ports import Column
from twice.errors import StageMismatch
from twice.targets.acting import acting
from twice.targets.postgres.arrow import converted
from twice.targets.postgres.pushdown import condition_of
from twice.targets.postgres.query import Query
from twice.targets.postgres.server import Server
from twice.targets.postgres.snapshot import joining
from twice.targets.postgres.split import split
from twice.targets.postgres.stage import Loading, Taken, copy_part, seal

INPUT = "twice_input"
"""Under this option a plan says what is read, for the record of a run's inputs."""

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
        name = self._register(_writing(loading))
        rows = _fitted(frame, wanted).coalesce(self._tasks)
        try:
            with acting(self._session):
                rows.write.format(name).mode("append").save()
        except Exception as error:
            if f"{StageMismatch.__module__}.{StageMismatch.__qualname__}" in str(error):
                raise StageMismatch(_last_line(str(error)), fix="Run the task again.") from error
            raise

    def read(self, server: Server, query: Query) -> DataFrame:
        parts = min(self._tasks, self._session.sparkContext.defaultParallelism)
        reading = _Reading(server.secret, server.settings(idle=0).as_string(None), query, parts)
        schema = ", ".join(f"{_quoted(held.name)} {held.type}" for held in query.columns)
        at = f" at snapshot {query.snapshot}" if query.snapshot else ""
        reader = self._session.read.format(self._register(_source(reading))).schema(schema)
        with acting(self._session):
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


@dataclass
class _Message(WriterCommitMessage):
    taken: Taken


class _Writer(DataSourceArrowWriter):
    def __init__(self, loading: Loading) -> None:
        self._loading = loading

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Message:
        context = TaskContext.get()
        assert context is not None
        return _Message(copy_part(self._loading, context.partitionId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called once, with the message of each task that counts."""
        seal(self._loading, [each.taken for each in messages if isinstance(each, _Message)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The stage stays unsealed; the run that failed discards it."""


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
            for statement in (*joining(reading.query.snapshot), reading.settings):
                cursor.execute(statement)
            cursor.execute(reading.query.text(*more))
            for batch in cursor.fetch_record_batch():
                yield converted(batch, reading.query.columns)


def _writing(loading: Loading) -> type[DataSource]:
    name = f"twice_postgres_{uuid4().hex}"

    class Writing(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def writer(self, schema: StructType, overwrite: bool) -> _Writer:  # noqa: ARG002 - Spark's signature
            return _Writer(loading)

    return Writing


def _source(reading: _Reading) -> type[DataSource]:
    name = f"twice_postgres_{uuid4().hex}"

    class Reading(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def reader(self, schema: StructType) -> _Reader:  # noqa: ARG002 - Spark's signature
            return _Reader(reading)

    return Reading


def _fitted(frame: DataFrame, wanted: Sequence[Column]) -> DataFrame:
    """The wanted columns, in their order and types; that they fit was checked before."""
    given = {each.name.lower(): each.name for each in frame.schema.fields}
    return frame.select(*(col(_quoted(given[each.name.lower()])).cast(each.type).alias(each.name) for each in wanted))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if StageMismatch.__qualname__ in line]
    return lines[-1].partition(": ")[2].strip() if lines else text
