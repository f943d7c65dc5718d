"""A result made to fit its table: the table's columns, by name, in its order and types."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.functions import col

from twice.core.names.spark import quoted, type_text
from twice.core.ports import Column, Shape
from twice.targets.delta.log.table import Table
from twice.targets.schema import check_fit


def shape_of(frame: DataFrame) -> Shape:
    return Shape(tuple(Column(field.name, type_text(field.dataType)) for field in frame.schema.fields))


def fitted(frame: DataFrame, table: Table) -> DataFrame:
    """Up-casts only, else SchemaDrift. Delta writes files without this check: a decimal once went into a double
    column and the table could not be read again."""
    shape = shape_of(frame)
    check_fit(shape, table.shape)
    given = {column.name.lower(): column for column in shape.columns}
    columns = []
    for wanted in table.shape.columns:
        ours = given[wanted.name.lower()]
        column = col(quoted(ours.name))
        columns.append((column if ours.type == wanted.type else column.cast(wanted.type)).alias(wanted.name))
    return frame.select(*columns)


def gathered(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows of many partitions brought together by partition: else every task writes a file into every one of them.

    Rebalancing still splits a partition that is too big for one file.
    """
    return frame.hint("rebalance", *(col(quoted(column)) for column in columns)) if columns else frame
