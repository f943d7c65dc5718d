"""Frames of Spark for the suite, whatever the target."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from typing import Any

import pyarrow as pa
from tests.contracts.target_suite import Row, ordered

from twice.core.ports import Column


def frame_of(session: Any, columns: Sequence[Column], rows: Sequence[Row], parts: int) -> Any:
    """By Arrow: a frame made of Python's tuples asks a Python process for them each time that a query reads it."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in columns))
    assert isinstance(schema, StructType)
    arrow = to_arrow_schema(schema)
    arrays = [pa.array([_pairs(row[at]) for row in rows], held.type) for at, held in enumerate(arrow)]
    frame = session.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)
    return frame.repartition(parts) if parts else frame


def _pairs(value: Any) -> Any:
    """Arrow takes a map as a list of pairs."""
    return list(value.items()) if isinstance(value, dict) else value


def collected(frame: Any) -> list[Row]:
    return ordered(tuple(_plain(value) for value in row) for row in frame.collect())


def _plain(value: Any) -> Any:
    return value.astimezone(timezone.utc) if hasattr(value, "tzinfo") else value
