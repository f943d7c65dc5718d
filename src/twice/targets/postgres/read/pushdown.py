"""Spark's filters as conditions of SQL, where both mean exactly the same. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

from psycopg import sql
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from twice.targets.postgres.server.names import column
from twice.targets.postgres.server.types import TableColumn

_COMPARED = {
    EqualTo: "{} = {}",
    GreaterThan: "{} > {}",
    GreaterThanOrEqual: "{} >= {}",
    LessThan: "{} < {}",
    LessThanOrEqual: "{} <= {}",
}


def condition_of(filter_: Filter, held: Mapping[str, TableColumn]) -> str | None:
    """None for a filter that Spark must apply itself: text is left to it, which PostgreSQL compares by collation."""
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    found = held.get(path[0].lower()) if len(path) == 1 else None
    if found is None:
        return None
    if isinstance(filter_, IsNotNull):
        return sql.SQL("{} IS NOT NULL").format(column(found.name)).as_string(None)
    form = _COMPARED.get(type(filter_))
    value = getattr(filter_, "value", None)
    if form is None or not _exact(found, value):
        return None
    return sql.SQL(form).format(column(found.name), sql.Literal(value)).as_string(None)


def _exact(held: TableColumn, value: object) -> bool:
    if held.type == "date":
        return isinstance(value, date) and not isinstance(value, datetime)
    if held.type in ("timestamp", "timestamp_ntz"):
        return isinstance(value, datetime) and (value.tzinfo is not None) == (held.type == "timestamp")
    if held.type in ("smallint", "int", "bigint"):
        return isinstance(value, int) and not isinstance(value, bool)
    return held.type.startswith("decimal") and isinstance(value, (Decimal, int)) and not isinstance(value, bool)
