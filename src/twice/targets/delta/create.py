"""How a table must be for a result: as it is, wider, or made. Nothing is written here; what does not fit is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from twice.core.names.spark import quoted
from twice.core.ports import Column, Shape
from twice.core.time_scope import SliceColumn
from twice.core.write import Layout
from twice.errors import DeclarationError
from twice.targets.delta.log.log import Log
from twice.targets.delta.log.table import FORGETS_TOKENS, Intent, Table, wider
from twice.targets.grain import MARK, check_grain, check_partitioning, check_values, grain_mark, slice_value
from twice.targets.schema import check_named, intended


def intend(session: SparkSession, log: Log, held: Table | None, shape: Shape, layout: Layout, evolve: bool) -> Intent:
    """The table as the commit that publishes this result will leave it (`held`: as it is, None if it is missing)."""
    columns = intended(shape, None if held is None else held.shape, evolve)
    if held is None:
        metadata = _new(session, columns, layout.slice_column)
        # Delta adds what the session's defaults say: only then it is known which path may write it.
        return Intent(log.begin().become(metadata), None, metadata)
    new = columns[len(held.shape.columns) :]
    if not new:
        return Intent(held, held)
    added = tuple(_schema(session, new).jsonValue()["fields"])
    return Intent(wider(held, added), held, added=added)


def check(session: SparkSession, name: str, path: str, into: Intent, layout: Layout) -> None:
    """Refuse what would make a slice own rows that are not its own, or a token that is forgotten."""
    table, wanted = into.table, layout.slice_column
    if not layout.any_partitions:
        check_partitioning(name, table.partition_columns, wanted)
    check_named(name, table.shape, layout)
    if FORGETS_TOKENS in table.properties:
        raise DeclarationError(
            f"{name} forgets its tokens after {table.properties[FORGETS_TOKENS]}: an old slice would look unpublished",
            now="The table is unchanged.",
            fix=f"Run: ALTER TABLE delta.{quoted(path)} UNSET TBLPROPERTIES ('{FORGETS_TOKENS}').",
        )
    if wanted is None or layout.any_partitions or into.before is None:
        return
    check_grain(name, table.grain, wanted)
    # Every date is the beginning of a day: a daily table's log need not be read for this.
    if wanted.type == "timestamp" or wanted.grain == "month":
        column = table.partition_columns[0]
        found = Log(session, path).partition_values(table.in_log(column))
        values = (slice_value(text, wanted.type) for text in found)
        check_values(name, table.grain, values, wanted)


def _new(session: SparkSession, columns: Sequence[Column], slice_column: SliceColumn | None) -> str:
    """Delta's metadata of a new table, partitioned by the slice column, which remembers its grain."""
    by = [] if slice_column is None else [_spelled(columns, slice_column)]
    marks = {} if slice_column is None else {by[0]: {MARK: grain_mark(slice_column)}}
    body: dict[str, Any] = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _schema(session, columns, marks).json(),
        "partitionColumns": by,
        "configuration": {"delta.columnMapping.mode": "none"},
        "createdTime": int(time.time() * 1000),
    }
    return json.dumps({"metaData": body})


def _schema(
    session: SparkSession, columns: Sequence[Column], marks: dict[str, dict[str, str]] | None = None
) -> StructType:
    """As Spark itself reads the types, every column nullable."""
    marks = marks or {}
    nothing = [lit(None).cast(each.type).alias(each.name, metadata=marks.get(each.name, {})) for each in columns]
    return session.range(0).select(*nothing).schema


def _spelled(columns: Sequence[Column], slice_column: SliceColumn) -> str:
    for column in columns:
        if column.name.lower() == slice_column.name.lower():
            return column.name
    raise DeclarationError(
        f"the result has no {slice_column.type} column {slice_column.name}",
        fix="Keep the scope's column in the result.",
    )
