"""Since: what came after a mark. The mark is kept as the token's version (mark.py), so it lands with the data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cached_property
from typing import Literal

from twice.core.slice import BEGINNING, END, Slice
from twice.errors import DeclarationError, UsageError

CursorValue = datetime | date | int
CursorType = Literal["timestamp", "date", "integer"]

SINCE = Slice(BEGINNING, END, "since")
"""The one slice of an incremental task: it continues from wherever the mark is."""

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_EXAMPLE = 'Write initial="2026-01-01T00:00:00Z" for instants, "2026-01-01" for dates, 0 for numbers.'


@dataclass(frozen=True)
class Since:
    """`cursor` is a column of one input that only ever grows. `initial` is where to begin: an instant with its
    zone, a date or a whole number, as the cursor is. `lag` keeps the upper bound that far behind the newest row."""

    cursor: str
    initial: str | int
    lag: timedelta | int = 0

    def __post_init__(self) -> None:
        if not self.cursor.strip():
            raise DeclarationError("Since(…) needs the name of its cursor column", fix='Write Since("updated_at", …).')
        if self.type == "integer" and isinstance(self.lag, timedelta) and self.lag:
            raise DeclarationError(f"lag={self.lag} is a time, and the cursor counts numbers", fix="Write lag=1000.")
        if self.type != "integer" and not isinstance(self.lag, timedelta) and self.lag:
            raise DeclarationError(f"lag={self.lag} is a number, and the cursor is a time", fix="Write lag=hours(1).")
        if self.type == "date" and isinstance(self.lag, timedelta) and self.lag % _DAY:
            # Not rounded up: that would hold the target back by a time that was not declared.
            whole = -(-self.lag // _DAY)
            raise DeclarationError(
                f"lag={self.lag} is not a whole number of days, and the cursor is a date, which has no hours",
                fix=f"Write lag=days({max(whole, 1)}), or take a cursor of instants.",
            )
        if self._lag < 0:
            raise DeclarationError(f"lag={self.lag} is negative", fix="Write lag=hours(1), or leave it out.")

    @property
    def only(self) -> Slice:
        return SINCE

    @property
    def type(self) -> CursorType:
        return type_of(self.start)

    @cached_property
    def start(self) -> CursorValue:
        """`initial` as a value."""
        return _value(self.initial)

    def held_back(self, newest: CursorValue) -> CursorValue:
        """The upper bound: the newest value, less the lag."""
        return _moved(newest, -self._lag)

    def parse(self, text: str) -> CursorValue:
        """A mark as a person writes it."""
        try:
            value = _value(int(text) if self.type == "integer" else text)
        except (DeclarationError, ValueError):
            value = None
        if value is None or type(value) is not type(self.start):
            raise UsageError(f"{text!r} is not a mark of this task", fix=f"Give it as {mark_text(self.start)}.")
        if value < self.start:  # type: ignore[operator]
            raise UsageError(
                f"the mark {mark_text(value)} is before initial={self.initial}",
                fix=f"Give {mark_text(self.start)} or later, or an earlier initial=.",
            )
        return value

    @property
    def _lag(self) -> int:
        if not isinstance(self.lag, timedelta):
            return self.lag
        return self.lag.days if self.type == "date" else self.lag // _MICROSECOND


@dataclass(frozen=True)
class Window:
    """What one run of an incremental task reads: from `low` to `high`, which is the mark it moves to.
    `closed` windows include `high`; open ones leave the rows of that very stamp to the next run.
    `more`: the source goes further, but an earlier attempt from the same mark had frozen this bound."""

    low: CursorValue
    high: CursorValue
    closed: bool
    more: bool = False

    def __str__(self) -> str:
        return f"[{mark_text(self.low)}, {mark_text(self.high)}{']' if self.closed else ')'}"


def type_of(value: CursorValue) -> CursorType:
    if isinstance(value, int):
        return "integer"
    return "timestamp" if isinstance(value, datetime) else "date"


def mark_text(value: CursorValue) -> str:
    """A mark as people write it: instants in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return str(value)


def _value(initial: str | int) -> CursorValue:
    if isinstance(initial, int) and not isinstance(initial, bool):
        return initial
    try:
        if isinstance(initial, str) and len(initial) == 10:
            return date.fromisoformat(initial)
        instant = datetime.fromisoformat(str(initial).replace("Z", "+00:00"))
    except ValueError:
        raise DeclarationError(
            f"initial={initial!r} is neither an instant, nor a date, nor a number", fix=_EXAMPLE
        ) from None
    if instant.tzinfo is None:
        raise DeclarationError(f"initial={initial!r} has no time zone", fix=_EXAMPLE)
    return instant.astimezone(timezone.utc)


def _moved(start: CursorValue, by: int) -> CursorValue:
    if isinstance(start, datetime):
        return start + by * _MICROSECOND
    return start + by if isinstance(start, int) else start + timedelta(days=by)
