"""Staging in place: data files in the table's own folder, which no version of it refers to yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame

from twice.core.failure.failpoints import Point, hit
from twice.core.names.spark import quoted
from twice.core.ports import Column
from twice.core.slice import labels_of
from twice.core.write import UpsertRows, WritePlan
from twice.errors import RowsOutsideSlice
from twice.targets.delta.handle import TableHandle
from twice.targets.delta.log.condition import owned, spelled
from twice.targets.delta.log.jvm import broken_check, named
from twice.targets.delta.log.table import Table
from twice.targets.delta.log.transaction import Transaction
from twice.targets.delta.write.publish import Stage, begun
from twice.targets.keyed import null_key

_SLICE, _KEY = "twice slice", "twice key"


def prefix(attempt: str) -> str:
    """How the names of an attempt's data files begin."""
    return f"twice-{attempt}-"


def write(
    table_handle: TableHandle, stage: Stage, rows: DataFrame, plan: WritePlan, attempt: str
) -> tuple[Transaction, tuple[Any, ...]]:
    """The added files, and the transaction that reads them. Rows outside the slices, or without a key, are refused.

    Dying here leaves data files named by the attempt, which no version of the table refers to.
    """
    transaction = begun(table_handle, stage)
    try:
        with named(table_handle.session, prefix(attempt)):
            added = transaction.write(rows, _checks(plan, stage.table))
    except Exception as error:
        outside = broken_check(error, _SLICE)
        if outside is not None:
            raise RowsOutsideSlice(
                f"the result has rows outside {labels_of(plan.slices)}: {readable(outside, stage.table.shape.columns)}",
                fix="Filter the result to its slice.",
            ) from error
        if isinstance(plan.write, UpsertRows) and broken_check(error, _KEY) is not None:
            raise null_key(plan.write) from error
        raise
    hit(Point.IN_STAGE)
    return transaction, tuple(added)


def _checks(plan: WritePlan, table: Table) -> Mapping[str, str]:
    names = [column.name for column in table.shape.columns]
    checks = {}
    inside = owned(plan.slices, names)
    if inside is not None:
        checks[_SLICE] = inside
    if isinstance(plan.write, UpsertRows) and plan.write.null_keys == "refuse":
        checks[_KEY] = " AND ".join(f"{quoted(spelled(names, key))} IS NOT NULL" for key in plan.write.key)
    return checks


_GIVEN = re.compile(r"(?:^|(?<= ))- (\S+) : (-?\d+)(?= - |$)")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def readable(values: str, columns: Sequence[Column]) -> str:
    """Values as Delta names them (`- order_date : 20614`), with days since 1970 as dates and microseconds as times.
    A number that Python has no date for (Spark counts further than the year 9999) stays a number."""
    types = {column.name.lower(): column.type for column in columns}

    def shown(given: re.Match[str]) -> str:
        type_ = types.get(given[1].strip("`").lower(), "")
        try:
            if type_ == "date":
                return f"- {given[1]} : {_EPOCH.date() + timedelta(days=int(given[2]))}"
            if type_.startswith("timestamp"):
                return f"- {given[1]} : {_EPOCH + timedelta(microseconds=int(given[2])):%Y-%m-%d %H:%M:%S.%f} UTC"
        except OverflowError:
            return given[0]
        return given[0]

    return _GIVEN.sub(shown, values)
