"""Make a table if it is missing, and refuse one that does not fit the task. All through the public API."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from twice.core.ports import Shape
from twice.core.time_scope import SliceColumn
from twice.core.write import Layout
from twice.errors import DeclarationError
from twice.targets.delta.condition import quoted
from twice.targets.delta.internal import Log
from twice.targets.delta.table import FORGETS_TOKENS, Table
from twice.targets.grain import MARK, check_grain, check_partitioning, check_values, grain_mark, slice_value
from twice.targets.schema import check_fit, check_named, drift


def create(session: SparkSession, path: str, shape: Shape, slice_column: SliceColumn | None) -> None:
    """An empty table, partitioned by the slice column. If another made it meanwhile, theirs stands.

    An empty write and not CREATE TABLE: a creator that was killed may have left the folder, and CREATE TABLE then
    says that the table exists. Dying here leaves no table or an empty one.
    """
    nothing = session.range(0).select(
        *(
            lit(None).cast(column.type).alias(column.name, metadata=_remembered(column.name, slice_column))
            for column in shape.columns
        )
    )
    writer = nothing.write.format("delta").mode("error").option("delta.columnMapping.mode", "none")
    if slice_column is not None:
        writer = writer.partitionBy(_spelled(shape, slice_column))
    try:
        writer.save(path)
    except (PySparkException, Py4JJavaError):
        if Log(session, path).table() is None:
            raise


def evolve(session: SparkSession, path: str, shape: Shape, table: Table) -> None:
    """Add the result's new columns. Dying here leaves a table with columns that are NULL in every row."""
    new = ", ".join(f"{quoted(column.name)} {column.type}" for column in drift(shape, table.shape).new)
    session.sql(f"ALTER TABLE delta.{quoted(path)} ADD COLUMNS ({new})")


def check(session: SparkSession, name: str, path: str, table: Table, shape: Shape, layout: Layout) -> None:
    """Refuse what would make a slice own rows that are not its own, or a token that is forgotten."""
    wanted = layout.slice_column
    if not layout.any_partitions:
        check_partitioning(name, table.partition_columns, wanted)
    check_fit(shape, table.shape)
    check_named(name, table.shape, layout)
    if FORGETS_TOKENS in table.properties:
        raise DeclarationError(
            f"{name} forgets its tokens after {table.properties[FORGETS_TOKENS]}: an old slice would look unpublished",
            now="The table is unchanged.",
            fix=f"Run: ALTER TABLE delta.{quoted(path)} UNSET TBLPROPERTIES ('{FORGETS_TOKENS}').",
        )
    if wanted is None or layout.any_partitions:
        return
    check_grain(name, table.grain, wanted)
    # Every date is the beginning of a day: a daily table's log need not be read for this.
    if wanted.type == "timestamp" or wanted.grain == "month":
        column = table.partition_columns[0]
        values = (slice_value(text, wanted.type) for text in Log(session, path).partition_values(column))
        check_values(name, table.grain, values, wanted)


def _remembered(name: str, slice_column: SliceColumn | None) -> dict[str, str]:
    if slice_column is None or name.lower() != slice_column.name.lower():
        return {}
    return {MARK: grain_mark(slice_column)}


def _spelled(shape: Shape, slice_column: SliceColumn) -> str:
    for column in shape.columns:
        if column.name.lower() == slice_column.name.lower():
            return column.name
    raise DeclarationError(
        f"the result has no {slice_column.type} column {slice_column.name}",
        fix="Keep the scope's column in the result.",
    )
