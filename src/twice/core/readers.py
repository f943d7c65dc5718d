"""Which slices of a task read what a slice of another one holds. Pure, and exact: a slice too many is published for
nothing, perhaps empty; one too few keeps old rows.

A column of a table is a DATE or an instant, whatever its scopes are cut by. A day of New York holds one date in its
slice column and some 24 hours in its TIMESTAMP column: a task of UTC days that reads by the date reads it with one of
its days, one that reads by the instant with two.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

from twice.core.slice import Slice
from twice.core.time_scope import TimeScope, midnight

_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)

Values = tuple[date, date] | tuple[datetime, datetime]
"""`low <= value < high`: two dates, or two instants."""


def values_of(scope: TimeScope, slice_: Slice, column: str) -> Values | None:
    """Which values the rows of a slice may have in a column of their table; None if the scope says nothing about it."""
    held, name = scope.held_in, column.lower()
    if held.derived and name == held.name.lower():
        assert slice_.bounds is not None, slice_.label
        low = slice_.bounds.low  # every row of the slice has this one value
        return (low, low + _INSTANT) if isinstance(low, datetime) else (low, low + _DAY)
    if name != held.source.lower():
        return None
    if held.source_type == "date":
        return slice_.start.date(), slice_.end.date()
    return slice_.start, slice_.end


def reading_slices(scope: TimeScope, values: Values, before: timedelta) -> tuple[Slice, ...]:
    """The slices that read rows with these values, of an input that is cut to the slice and widened by `before`."""
    low, high = values
    if isinstance(low, datetime) and isinstance(high, datetime):
        return scope.reading(low, high, before)
    near = scope.reading(_noon(low) - 2 * _DAY, _noon(high) + 2 * _DAY, before)
    return tuple(slice_ for slice_ in near if _reads_dates(scope, slice_, before, low, high))


def _reads_dates(scope: TimeScope, slice_: Slice, before: timedelta, low: date, high: date) -> bool:
    """As an input is cut on a DATE column: by the dates that begin where the slice does."""
    first = midnight(scope.widened(slice_, before), scope.zone)
    end = midnight(slice_.end, scope.zone)
    if first is None or end is None:
        return False  # not whole days: its run is refused, since a date says nothing about the hour
    return first < high and low < end


def _noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=timezone.utc)
