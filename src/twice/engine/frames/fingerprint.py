"""The fingerprint: a 128-bit hash of a slice's rows, whatever their order and the order of their columns.

Each row gives two 64-bit hashes (the same columns behind different seeds). They are cut in signed halves and
summed: sums, not xor, so that a doubled row counts; signed halves, so that a long cannot overflow before four
billion equal rows. The driver mixes the four sums, the count and the schema into 128 bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from twice.core.names.spark import quoted
from twice.core.ports import Column
from twice.errors import ResultRefused

SEEDS = (0x7477_6963_6531, 0x7477_6963_6532)
HALVES = 4
_MASK_BITS = 63
_PLAIN = (
    st.NumericType,
    st.BooleanType,
    st.BinaryType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
    st.TimeType,
    st.DayTimeIntervalType,
    st.YearMonthIntervalType,
    st.CalendarIntervalType,
    st.NullType,
)


def row_hashes(frame: DataFrame) -> tuple[SparkColumn, SparkColumn]:
    """Two independent 64-bit hashes of a row. Equal rows have equal hashes in any session, of any plan."""
    fields = sorted(frame.schema.fields, key=lambda field: field.name.lower())
    parts = [
        *_masks(fields),
        *(part for field in fields for part in _parts(_column(field), field.dataType, field.name)),
    ]
    first, second = (sf.xxhash64(sf.lit(seed), *parts) for seed in SEEDS)
    return first, second


def key_hash(frame: DataFrame, columns: Sequence[str]) -> SparkColumn:
    """One 64-bit hash of some columns; equal keys have equal hashes (not the other way round)."""
    return row_hashes(frame.select(*(quoted(name) for name in dict.fromkeys(columns))))[0]


def halves(first: SparkColumn, second: SparkColumn) -> tuple[SparkColumn, ...]:
    return tuple(half for hash_ in (first, second) for half in (_low(hash_), sf.shiftright(hash_, 32)))


def digest(columns: Sequence[Column], rows: int, sums: Sequence[int]) -> str:
    """32 hexadecimal digits. Names are lower-cased and sorted: a reordering of columns is the same content."""
    mixed = hashlib.blake2b(digest_size=16)
    for column in sorted(columns, key=lambda column: column.name.lower()):
        mixed.update(f"{len(column.name)}:{column.name.lower()} {column.type}\n".encode())
    mixed.update(",".join(str(number) for number in (rows, *sums)).encode())
    return mixed.hexdigest()


def _low(hash_: SparkColumn) -> SparkColumn:
    return sf.shiftright(sf.shiftleft(hash_, 32), 32)


def _column(field: st.StructField) -> SparkColumn:
    return sf.col(quoted(field.name))


def _masks(fields: Sequence[st.StructField]) -> list[SparkColumn]:
    """One bit per column that is NULL, 63 to a long: Spark's hash skips NULL, so (NULL, a) would be (a, NULL)."""
    masks = []
    for begin in range(0, len(fields), _MASK_BITS):
        mask = sf.lit(0).cast("bigint")
        for bit, field in enumerate(fields[begin : begin + _MASK_BITS]):
            mask = mask.bitwiseOR(
                sf.when(_column(field).isNull(), sf.lit(1 << bit).cast("bigint")).otherwise(sf.lit(0))
            )
        masks.append(mask)
    return masks


def _parts(value: SparkColumn, type_: st.DataType, name: str) -> list[SparkColumn]:
    """What to hash for a value so that two different values never hash the same bytes.

    Spark's own hash already takes -0.0 for 0.0 and every NaN for one.
    """
    if isinstance(type_, _PLAIN):
        return [value]
    if isinstance(type_, st.StringType):
        # A collation may hold two texts for equal; a fingerprint may not.
        return [value if type_.collation == "UTF8_BINARY" else value.cast("binary")]
    if isinstance(type_, st.StructType):
        return [part for field in type_.fields for part in _flagged(value.getField(field.name), field.dataType, name)]
    if isinstance(type_, st.ArrayType):
        inner = type_.elementType
        return [sf.size(value), sf.transform(value, lambda element: sf.struct(*_flagged(element, inner, name)))]
    if isinstance(type_, st.MapType):
        return [sf.size(value), _entries(value, type_, name)]
    if isinstance(type_, st.VariantType):
        return [sf.schema_of_variant(value), sf.to_json(value)]
    if isinstance(type_, st.UserDefinedType):
        return [value]
    raise ResultRefused(
        f"the column {name!r} is of type {type_.simpleString()}, which twice cannot fingerprint",
        fix="Cast it to a type of SQL, e.g. string or binary.",
    )


def _flagged(value: SparkColumn, type_: st.DataType, name: str) -> list[SparkColumn]:
    return [value.isNull(), *_parts(value, type_, name)]


def _entries(value: SparkColumn, type_: st.MapType, name: str) -> SparkColumn:
    """A map has no order: its entries are hashed one by one (to 128 bits) and the hashes sorted."""

    def entry(pair: SparkColumn) -> SparkColumn:
        parts = [
            *_parts(pair.getField("key"), type_.keyType, name),
            *_flagged(pair.getField("value"), type_.valueType, name),
        ]
        first, second = (sf.xxhash64(sf.lit(seed), *parts) for seed in SEEDS)
        return sf.struct(first.alias("a"), second.alias("b"))

    return sf.array_sort(sf.transform(sf.map_entries(value), entry))
