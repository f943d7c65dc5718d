"""Audit measures as Spark columns: true for a row that breaks the audit. NULL passes, except for `not_null`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from twice.core.audit import Measure
from twice.core.closed import assert_never
from twice.core.names.spark import quoted
from twice.core.ports import Column
from twice.engine.frames.columns import declared
from twice.engine.frames.frames import columns_of, moment
from twice.errors import DeclarationError


def broken(frame: DataFrame, measure: Measure) -> SparkColumn:
    """The condition, checked against the frame's columns before anything runs."""
    audit = measure.audit
    columns = columns_of(frame)
    match audit.kind:
        case "not_null":
            return _column(columns, measure.column or audit.columns[0], audit.name).isNull()
        case "accepted":
            holds = _accepted(columns, audit.columns[0], audit.values, audit.name)
        case "between":
            holds = _between(columns, audit.columns[0], audit.low, audit.high, audit.name)
        case "expression":
            holds = _expression(frame, audit.sql, audit.name)
        case "unique" | "rows" | "not_shrunk" | "custom":
            raise DeclarationError(f"the audit {audit.name} cannot be counted while writing")
        case _:
            assert_never(audit.kind)
    condition = sf.coalesce(~holds, sf.lit(False))
    _check(frame, condition, audit.name)
    return condition


def _column(columns: Sequence[Column], name: str, audit: str) -> SparkColumn:
    return sf.col(quoted(declared(columns, name, f"audit.{audit}").name))


def _accepted(columns: Sequence[Column], name: str, values: Sequence[Any], audit: str) -> SparkColumn:
    column = _column(columns, name, audit)
    type_ = declared(columns, name, audit).type
    wanted = [_literal(value, type_, audit) for value in values if value is not None]
    return column.isin(*wanted) if wanted else column.isNull()


def _between(columns: Sequence[Column], name: str, low: Any, high: Any, audit: str) -> SparkColumn:
    column = _column(columns, name, audit)
    type_ = declared(columns, name, audit).type
    holds = sf.lit(True)
    if low is not None:
        holds = holds & (column >= _literal(low, type_, audit))
    if high is not None:
        holds = holds & (column <= _literal(high, type_, audit))
    return holds


def _expression(frame: DataFrame, sql: str, audit: str) -> SparkColumn:
    holds = sf.expr(sql)
    _check(frame, holds, audit)
    type_ = frame.select(holds).schema.fields[0].dataType.simpleString()
    if type_ not in ("boolean", "void"):
        raise DeclarationError(
            f"audit.{audit} gives {type_}, not true or false", fix='Write a condition, e.g. "amount >= 0".'
        )
    return holds


def _check(frame: DataFrame, condition: SparkColumn, audit: str) -> None:
    try:
        frame.select(condition)
    except ParseException as error:
        raise DeclarationError(f"audit.{audit} is not Spark SQL: {_first_line(error)}") from error
    except AnalysisException as error:
        raise DeclarationError(
            f"audit.{audit} does not fit the result: {_first_line(error)}", fix="Correct the audit, or the result."
        ) from error


def _literal(value: Any, type_: str, audit: str) -> SparkColumn:
    """A value as it is, never as text in SQL. Numbers are not compared with text: a cast would fail on the first
    row that is no number."""
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if number and type_ == "string":
        raise DeclarationError(
            f"audit.{audit} compares the text column with the number {value!r}", fix=f"Write {str(value)!r}."
        )
    if isinstance(value, datetime):
        return moment(value if value.tzinfo else value.replace(tzinfo=timezone.utc))
    if isinstance(value, date):
        return moment(value)
    if number or isinstance(value, (bool, str, bytes)):
        return sf.lit(bytearray(value) if isinstance(value, bytes) else value)
    raise DeclarationError(
        f"audit.{audit} has a value of type {type(value).__name__}",
        fix="Use numbers, texts, dates, timestamps or booleans.",
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
