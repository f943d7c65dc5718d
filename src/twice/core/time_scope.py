"""What every scope over time shares: how instants, labels, bounds and slice columns belong together.

A slice comes from a logical date, never from a clock. Each grain (scope.py) only says where its slices begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cached_property
from typing import ClassVar, Literal
from zoneinfo import ZoneInfo

from twice.core.closed import assert_never
from twice.core.hints import command, hint, interval, option
from twice.core.local_day import begin_of
from twice.core.slice import Bounds, Slice, SliceValue
from twice.errors import BeforeStart, DeclarationError, UsageError

Grain = Literal["day", "month", "hour", "window"]
ValueType = Literal["date", "timestamp"]


_SHIFT = timedelta(hours=3)
"""More than any clock change moves an instant."""


@dataclass(frozen=True)
class SliceColumn:
    """The target's column that holds the slice's value, and how it comes from the scope column.

    `derived` is False where the scope column itself is the slice column.
    """

    name: str
    type: ValueType
    source: str
    source_type: ValueType
    grain: Grain
    zone: str | None
    minutes: int
    derived: bool

    @property
    def one_value(self) -> bool:
        """Whether all rows of a slice hold one value of it: a month's first day, not each day of a month."""
        return self.derived or (self.type == "date" and self.grain == "day")


def cut_word(column: SliceColumn) -> str:
    """How long its slices are, in one word that is stored in tables and tokens: `day`, `month`, `hour`, `window/15`."""
    match column.grain:
        case "day" | "month" | "hour":
            return column.grain
        case "window":
            return f"window/{column.minutes}"
        case _:
            assert_never(column.grain)


@dataclass(frozen=True)
class TimeScope:
    """What `Daily`, `Monthly`, `Hourly` and `Every` share. Build one of those, not this.

    `lookback`: a run also makes so many earlier slices right. `batch`: the task's function gives the right rows for
    several slices at once, so a backfill may compute and publish them together."""

    column: str
    start: str
    zone: str | None = None
    lookback: int = 0
    slice_column: str | None = None
    batch: bool = False

    def __post_init__(self) -> None:
        if not self.column:
            raise DeclarationError("a scope needs the name of its column", fix='Write Daily("order_date", …).')
        if self.lookback < 0:
            raise DeclarationError(f"lookback={self.lookback} is negative", fix="Give the number of earlier slices.")
        if self.zone is not None:
            _zone(self.zone)
        self._first_local  # noqa: B018 - a wrong `start` must fail where it is written

    def slice_at(self, instant: datetime) -> Slice:
        """The slice that contains an instant."""
        if instant.tzinfo is None:
            raise UsageError(f"{instant.isoformat()} has no time zone", fix="Give it one, e.g. 2026-06-09T00:00Z.")
        found = self._slice(self._floor(instant.astimezone(self._tz).replace(tzinfo=None)))
        while instant < found.start:  # shown on the clocks before they were put back over midnight
            found = self._slice(self._floor(self.local_start(found) - timedelta(microseconds=1)))
        return found

    def slice_of(self, text: str) -> Slice:
        """The slice named by a label (`2026-06-09`) or by an instant with its zone (an orchestrator's date)."""
        local = self._parse(text)
        if local is None:
            instant = _instant(text)
            if instant is None:
                raise UsageError(f"{text!r} is not a {self._noun} of this task", fix=self._form(text))
            self._refuse_other_zone(text, instant)
            found = self.slice_at(instant)
        else:
            found = self._slice(local)
        if found.start == found.end:
            raise self._skipped(text)
        return self._begun(found)

    def _form(self, text: str) -> str:
        """How a slice is named. Somebody who named a day of a scope in UTC wants all of it."""
        form = f"Give it as {self._example}."
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return form
        if self._grain not in ("hour", "window") or day.isoformat() != text:
            return form
        whole = interval(text, (day + timedelta(days=1)).isoformat())
        return hint("{} All {}s of that day: {}, or {}.", form, self._noun, whole, command("backfill"))

    def _skipped(self, text: str) -> UsageError:
        return UsageError(f"{text} does not exist in {self.zone}: its clocks skipped it", fix="Leave it out.")

    def _refuse_other_zone(self, text: str, instant: datetime) -> None:
        """A date has no zone: midnight in Berlin would be taken for the day before."""
        if self._column_type == "date" and instant.utcoffset():
            local = instant.replace(tzinfo=None)
            raise UsageError(
                f"{text} is a time in a zone of its own, and this task's {self._noun}s are dates without one",
                fix=hint("Give the {} itself: {}.", self._noun, option("date", self._label(self._floor(local)))),
            )

    def covering(self, day: date) -> tuple[Slice, ...]:
        """The slices that a calendar day of this scope's zone is made of, or the one that it lies in, from the task's
        start on. Raises BeforeStart where there is none, and UsageError for a day that the zone skipped."""
        begin = datetime(day.year, day.month, day.day)
        end = self._instant(begin + timedelta(days=1))
        found = tuple(self._walk(self._slice(self._floor(begin)), end))
        if not found:
            raise self._skipped(day.isoformat())
        return tuple(slice_ for slice_ in found if slice_.start >= self.first.start) or (self._begun(found[-1]),)

    def between(self, start: datetime, end: datetime) -> Iterator[Slice]:
        """The slices of `[start, end)`, which must begin and end on slice boundaries, oldest first. Raises BeforeStart
        for one that begins before the task does."""
        if start >= end:
            raise UsageError(
                f"the interval {start.isoformat()} to {end.isoformat()} is empty",
                fix=hint(
                    "The end is not included. Airflow 3 gives cron schedules a zero-width data interval: use a "
                    "data-interval timetable (CronDataIntervalTimetable), or pass the logical date with {}.",
                    option("date"),
                ),
            )
        first, last = self.slice_at(start), self.slice_at(end)
        if first.start != start or last.start != end:
            raise UsageError(
                f"the interval {start.isoformat()} to {end.isoformat()} does not begin and end on a {self._noun}",
                fix=f"The nearest boundaries are {first.start.isoformat()} and {last.start.isoformat()}.",
            )
        return self._walk(self._begun(first), end)

    def through(self, first: Slice, last: Slice) -> Iterator[Slice]:
        """Every slice from `first` to `last`, both included."""
        return self._walk(first, last.end)

    def labels_through(self, last: str) -> Iterator[str]:
        """The labels of its slices from the first one to this one, without making the slices: they may be a million."""
        local, end = self._first_local, self._parse(last)
        while end is not None and local <= end:
            following = self._following(local)
            if self.zone is None or self._instant(local) < self._instant(following):
                yield self._label(local)
            local = following

    def earlier(self, slice_: Slice, count: int) -> tuple[Slice, ...]:
        """The `count` slices before this one, oldest first, none before the task's start."""
        found: list[Slice] = []
        at = slice_
        while len(found) < count and at.start > self.first.start:
            at = self.slice_at(at.start - timedelta(microseconds=1))
            found.append(at)
        return tuple(reversed(found))

    def reading(self, start: datetime, end: datetime, before: timedelta) -> tuple[Slice, ...]:
        """The slices that read something of `[start, end)` from an input that is widened by `before`."""
        first = max(self.slice_at(start), self.first)
        if first.start >= end + before + _SHIFT:
            return ()
        near = self._walk(first, end + before + _SHIFT)
        return tuple(slice_ for slice_ in near if self.widened(slice_, before) < end and slice_.end > start)

    def widened(self, slice_: Slice, before: timedelta) -> datetime:
        """The instant `before` the slice's start; whole days are days of the zone's calendar, of 23 to 25 hours."""
        if before % timedelta(days=1):
            return slice_.start - before
        return self._instant(self.local_start(slice_) - before)

    def local_start(self, slice_: Slice) -> datetime:
        """What the zone's clocks show where the slice begins, as its label says it: without a zone."""
        local = self._parse(slice_.label)
        assert local is not None, slice_.label
        return local

    @cached_property
    def first(self) -> Slice:
        return self._slice(self._first_local)

    @cached_property
    def held_in(self) -> SliceColumn:
        """The slice column this scope gives its target."""
        name = self.slice_column or self._default_column
        derived = name != self.column
        return SliceColumn(
            name=name,
            type=self._value_type if derived else self._column_type,
            source=self.column,
            source_type=self._column_type,
            grain=self._grain,
            zone=self.zone,
            minutes=getattr(self, "minutes", 60),
            derived=derived,
        )

    # What each grain says for itself.
    _grain: ClassVar[Grain] = "day"
    _noun: ClassVar[str] = "day"
    _example: ClassVar[str] = "2026-06-09"
    _value_type: ClassVar[ValueType] = "date"

    @property
    def _default_column(self) -> str:
        raise NotImplementedError

    @property
    def _column_type(self) -> ValueType:
        return "date" if self.zone is None else "timestamp"

    def _floor(self, local: datetime) -> datetime:
        raise NotImplementedError

    def _following(self, local: datetime) -> datetime:
        raise NotImplementedError

    def _label(self, local: datetime) -> str:
        raise NotImplementedError

    def _parse(self, text: str) -> datetime | None:
        """The local start of the slice with this label; None if the text is no label of this grain."""
        raise NotImplementedError

    @property
    def _tz(self) -> timezone | ZoneInfo:
        return timezone.utc if self.zone is None else _zone(self.zone)

    @cached_property
    def _first_local(self) -> datetime:
        local = self._parse(self.start)
        if local is None:
            raise DeclarationError(
                f"start={self.start!r} is not the beginning of a {self._noun}",
                fix=f'Write start="{self._example}".',
            )
        return local

    def _walk(self, first: Slice, end: datetime) -> Iterator[Slice]:
        at, local = first, self.local_start(first)
        while at.start < end:
            if at.start < at.end:  # a day that a zone skipped has no instants and no slice
                yield at
            local = self._following(local)
            at = self._slice(local)

    def _begun(self, slice_: Slice) -> Slice:
        if slice_.start < self.first.start:
            raise BeforeStart(
                f"{slice_.label} is before the task's start, {self.first.label}",
                fix=f"Choose a {self._noun} from {self.first.label} on, or change start= in the declaration.",
            )
        return slice_

    def _slice(self, local: datetime) -> Slice:
        following = self._following(local)
        start, end = self._instant(local), self._instant(following)
        low, high = self._values(local, start), self._values(following, end)
        return Slice(start, end, self._label(local), Bounds(self.held_in.name, low, high))

    def _values(self, local: datetime, instant: datetime) -> SliceValue:
        return local.date() if self.held_in.type == "date" else instant

    def _instant(self, local: datetime) -> datetime:
        return begin_of(local, self._tz)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise DeclarationError(f"unknown time zone {name!r}", fix='Use an IANA name, e.g. "Europe/Berlin".') from error


def _instant(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None
