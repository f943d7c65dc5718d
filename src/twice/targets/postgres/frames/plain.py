"""What rows look like on this side: how a frame is copied into a stage, and a query read into one.

Two kinds: Spark's frames (spark.py), and plain `Rows` here, for everything that needs no JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from twice.core.ports import Column, Frame
from twice.targets.memory.rows import Rows
from twice.targets.postgres.frames.arrow import arrow_type, converted
from twice.targets.postgres.read.query import Query
from twice.targets.postgres.read.reading import begin_reading
from twice.targets.postgres.server.server import Server
from twice.targets.postgres.write.stage import Loading, copy_part, seal


class Frames(Protocol):
    """The way of one kind of frame in and out of PostgreSQL. `lazy`: a frame is read after `read` gave it."""

    @property
    def lazy(self) -> bool: ...

    def columns(self, frame: Frame) -> tuple[Column, ...]: ...

    def copy(self, frame: Frame, wanted: Sequence[Column], loading: Loading) -> None:
        """The frame's rows as the wanted columns into a stage, then sealed. Dying here leaves an unsealed stage."""

    def read(self, server: Server, query: Query) -> Frame: ...


@dataclass(frozen=True)
class PlainFrames:
    """`Rows`, copied by this process in so many parts."""

    parts: int = 2
    lazy: bool = False

    def columns(self, frame: Rows) -> tuple[Column, ...]:
        return frame.columns

    def copy(self, frame: Rows, wanted: Sequence[Column], loading: Loading) -> None:
        rows = frame.select([column.name for column in wanted]).rows
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in wanted])
        taken = []
        for part in range(self.parts):
            mine = [dict(zip(schema.names, row, strict=True)) for row in rows[part :: self.parts]]
            batches = pa.Table.from_pylist(mine, schema).to_batches()
            taken.append(copy_part(loading, iter(batches)))
        seal(loading, taken)

    def read(self, server: Server, query: Query) -> Rows:
        with adbc.connect(server.secret) as connection, connection.cursor() as cursor:
            begin_reading(cursor, query, server.settings().as_string(None))
            cursor.execute(query.text())
            found: Any = cursor.fetch_arrow_table()
        columns = tuple(held.column for held in query.columns)
        table = converted(found, query.columns)
        return Rows(columns, tuple(tuple(row.values()) for row in table.to_pylist()))
