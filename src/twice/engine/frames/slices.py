"""What a slice means for a frame's columns: which dates it covers, which types can be cut. No Spark in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from twice.core.closed import assert_never
from twice.core.local_day import day_of, midnight
from twice.core.ports import Column
from twice.core.since import CursorType
from twice.core.time_scope import SliceColumn
from twice.engine.frames.columns import declared, find, listed
from twice.errors import DeclarationError, ResultRefused

_INITIAL = {
    "timestamp": 'Write an instant with its zone: initial="2026-01-01T00:00:00Z".',
    "date": 'Write a date: initial="2026-01-01".',
    "integer": "Write a whole number: initial=0.",
}
_CURSORS: dict[str, CursorType] = {
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
    "date": "date",
    "tinyint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bigint": "integer",
}


@dataclass(frozen=True)
class ValueRange:
    """`low <= column < high`, in the column's own type."""

    column: str
    low: date | datetime
    high: date | datetime


def range_of(columns: Sequence[Column], name: str, start: datetime, end: datetime, zone: str | None) -> ValueRange:
    """The values of one of a frame's columns that `[start, end)` covers."""
    column = declared(columns, name, "by=")
    if column.type == "timestamp":
        return ValueRange(column.name, start, end)
    if column.type == "date":
        return ValueRange(column.name, *_dates(column.name, start, end, zone))
    raise DeclarationError(
        f"by= names the column {name!r} of type {column.type}, which has no place in time",
        fix=_cast(name, column.type, "timestamp"),
    )


def type_of_cursor(column_type: str) -> CursorType | None:
    return _CURSORS.get(column_type)


def cursor_of(columns: Sequence[Column], name: str, wanted: CursorType | None = None) -> Column:
    """The cursor column, of a type that only grows; with `wanted`, of the type the scope's `initial` has."""
    column = declared(columns, name, "Since(…)")
    found = _CURSORS.get(column.type)
    if found is None:
        raise DeclarationError(
            f"the cursor {name!r} is of type {column.type}, which has no order that only grows",
            fix="Use a column of timestamps, dates or whole numbers.",
        )
    if wanted is not None and found != wanted:
        raise DeclarationError(
            f"the cursor {name!r} is of type {column.type}, and initial= is of type {wanted}",
            fix=_INITIAL[found],
        )
    return column


def check_source(columns: Sequence[Column], held: SliceColumn) -> Column:
    """The result's scope column, of the type the scope cuts."""
    column = find(columns, held.source)
    if column is None:
        raise ResultRefused(
            f"the result has no column {held.source!r}, which the scope is cut by",
            fix=f"Add it to the result, or correct the scope. The result has: {listed(columns)}.",
        )
    if column.type != held.source_type:
        raise ResultRefused(
            f"the scope is cut by {held.source!r}, which is {column.type} and must be {held.source_type}",
            fix=_cast(held.source, column.type, held.source_type),
        )
    return column


def check_given(columns: Sequence[Column], held: SliceColumn) -> Column | None:
    """The slice column if the result brings its own; None if it is still to be derived."""
    column = find(columns, held.name)
    if column is not None and column.type != held.type:
        raise ResultRefused(
            f"the result's column {held.name!r} is {column.type}; the slice column of that name is {held.type}",
            fix="Drop it (twice adds it), or give the slice column another name with slice_column=.",
        )
    return column


def value_of(held: SliceColumn, moment: date | datetime | None) -> date | datetime | None:
    """The slice column's value of a row, from its scope column: what Spark computes too."""
    if moment is None or not held.derived:
        return moment
    zone = ZoneInfo(held.zone) if held.zone else timezone.utc
    match held.grain:
        case "day":
            return _day(moment, zone)
        case "month":
            return _day(moment, zone).replace(day=1)
        case "hour":
            return _window(moment, zone, 60)
        case "window":
            return _window(moment, zone, held.minutes)
        case _:
            assert_never(held.grain)


def _day(moment: date | datetime, zone: tzinfo) -> date:
    return day_of(moment, zone) if isinstance(moment, datetime) else moment


def _window(moment: date | datetime, zone: tzinfo, minutes: int) -> date | datetime:
    if not isinstance(moment, datetime):
        return moment
    local = moment.astimezone(zone)
    start = local.replace(hour=0, minute=0, second=0, microsecond=0)
    step = timedelta(minutes=minutes)
    return start + (local - start) // step * step


def _dates(name: str, start: datetime, end: datetime, zone: str | None) -> tuple[date, date]:
    low, high = midnight(start, zone), midnight(end, zone)
    if low is None or high is None:
        raise DeclarationError(
            f"by= names the DATE column {name!r}, but {start.isoformat()} to {end.isoformat()} are not whole days"
            + (f" in {zone}" if zone else ""),
            fix="A date says nothing about the hour: cut by a TIMESTAMP column, or declare a Daily scope.",
        )
    return low, high


def _cast(name: str, have: str, want: str) -> str:
    if want == "date" and have == "timestamp":
        return f'Cast {name} to DATE in the result, or cut days in a time zone with Daily("{name}", zone="UTC").'
    if have == "timestamp_ntz":
        return f"Say which zone its clock shows: to_utc_timestamp(cast({name} AS timestamp), 'Europe/Berlin')."
    return f"Cast it first: to_{want}({name})."
