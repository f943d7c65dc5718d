"""Types as text: whatever a nested field is named, Spark can read its type again."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DataType, DecimalType, LongType, MapType, StringType, StructField, StructType

from twice.core.names.spark import type_text


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (DecimalType(12, 2), "decimal(12,2)"),
        (ArrayType(StringType()), "array<string>"),
        (MapType(StringType(), LongType()), "map<string,bigint>"),
        (StructType([StructField("id", LongType()), StructField("a_1", StringType())]), "struct<id:bigint,a_1:string>"),
        (StructType([StructField("user-agent", StringType())]), "struct<`user-agent`:string>"),
        (StructType([StructField("a`b, c:d", StringType())]), "struct<`a``b, c:d`:string>"),
        (StructType([StructField("größe", StringType())]), "struct<`größe`:string>"),
        (ArrayType(StructType([StructField("1st", LongType())])), "array<struct<`1st`:bigint>>"),
        (MapType(StringType(), StructType([StructField("x y", LongType())])), "map<string,struct<`x y`:bigint>>"),
    ],
)
def test_a_field_that_is_no_plain_word_is_quoted(type_: DataType, text: str) -> None:
    assert type_text(type_) == text
