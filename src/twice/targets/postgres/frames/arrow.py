"""Arrow's types on the way between Spark and PostgreSQL. What PostgreSQL holds and Spark cannot is refused by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from twice.errors import InputMissing
from twice.targets.postgres.server.types import TableColumn

_PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31, as Spark knows them
_DAY = 86_400_000_000

Batches = TypeVar("Batches", pa.Table, pa.RecordBatch)


def arrow_type(type_: str) -> pa.DataType:
    """Of a Spark type that has one in PostgreSQL too."""
    if type_.startswith("array<"):
        return pa.list_(arrow_type(type_[6:-1]))
    decimal = _DECIMAL.fullmatch(type_)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _PLAIN[type_]


def converted(found: Batches, columns: Sequence[TableColumn]) -> Batches:
    """What ADBC read, as Spark's types: numbers come as text, dates may lie where Spark has none."""
    schema = pa.schema([(held.name, arrow_type(held.type)) for held in columns])
    arrays = [_converted(found.column(at), held) for at, held in enumerate(columns)]
    return type(found).from_arrays(arrays, schema=schema)


def _converted(values: pa.Array | pa.ChunkedArray, held: TableColumn) -> pa.Array | pa.ChunkedArray:
    if held.type in ("date", "timestamp", "timestamp_ntz"):
        _check_range(values, held)
    wanted = arrow_type(held.type)
    try:
        return _cast(values, wanted)
    except pa.ArrowInvalid as error:
        raise InputMissing(
            f"column {held.name} holds a value that {held.type} cannot: {error}",
            now="",
            fix="Clean it in a view, and read the view.",
        ) from error


def _cast(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_cast(chunk, wanted) for chunk in values.chunks], wanted)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_list(wanted):
        inner = _cast(values.values, wanted.value_type)
        return pa.ListArray.from_arrays(values.offsets, inner, wanted, mask=values.is_null())
    return values if values.type == wanted else pc.cast(values, wanted)


def _check_range(values: pa.Array | pa.ChunkedArray, held: TableColumn) -> None:
    """`infinity` and years that Spark does not count arrive as other days without a word."""
    integers, unit = (pa.int32(), 1) if held.type == "date" else (pa.int64(), _DAY)
    found = pc.min_max(values.cast(integers))
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and not _FIRST_DAY * unit <= low <= high < (_LAST_DAY + 1) * unit:
        raise InputMissing(
            f"column {held.name} holds a date outside the years 1 to 9999, or infinity",
            now="",
            fix="Clean it in a view, and read the view.",
        )
