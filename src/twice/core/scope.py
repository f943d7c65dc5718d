"""How a task's work is cut into slices. A slice comes from a logical date, never from a clock.

Days and months may be cut in a time zone (`zone=`); then the scope column is a TIMESTAMP and days last 23, 24
or 25 hours. Without a zone the scope column of a day or a month is a DATE. Hours and finer are UTC instants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from twice.core.closed import assert_never
from twice.core.hints import hint, option
from twice.core.since import SINCE, Since
from twice.core.slice import WHOLE, Slice
from twice.core.time_scope import Grain, SliceColumn, TimeScope, ValueType, cut_word
from twice.errors import DeclarationError, UsageError

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d{2}(-01)?", re.ASCII)
_HOUR = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}(:00)?", re.ASCII)
_WINDOW = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", re.ASCII)


@dataclass(frozen=True)
class Daily(TimeScope):
    """One slice per day. `Daily("order_date", start=…)` on a DATE column; with `zone=` on a TIMESTAMP."""

    @property
    def _default_column(self) -> str:
        return self.column if self.zone is None else "local_day"

    def _floor(self, local: datetime) -> datetime:
        return datetime(local.year, local.month, local.day)

    def _following(self, local: datetime) -> datetime:
        return local + timedelta(days=1)

    def _label(self, local: datetime) -> str:
        return local.date().isoformat()

    def _parse(self, text: str) -> datetime | None:
        return _match(_DAY, text)


@dataclass(frozen=True)
class Monthly(TimeScope):
    """One slice per month. `slice_column=` the scope column itself if the table is partitioned by day."""

    _grain: ClassVar[Grain] = "month"
    _noun: ClassVar[str] = "month"
    _example: ClassVar[str] = "2026-06"

    @property
    def _default_column(self) -> str:
        return f"{_stem(self.column)}_month"

    def _floor(self, local: datetime) -> datetime:
        return datetime(local.year, local.month, 1)

    def _following(self, local: datetime) -> datetime:
        return datetime(local.year + local.month // 12, local.month % 12 + 1, 1)

    def _label(self, local: datetime) -> str:
        return f"{local.year:04d}-{local.month:02d}"

    def _parse(self, text: str) -> datetime | None:
        return _match(_MONTH, text)


@dataclass(frozen=True)
class Hourly(TimeScope):
    """One slice per UTC hour of a TIMESTAMP column."""

    _grain: ClassVar[Grain] = "hour"
    _noun: ClassVar[str] = "hour"
    _example: ClassVar[str] = "2026-06-09T13"
    _value_type: ClassVar[ValueType] = "timestamp"

    def __post_init__(self) -> None:
        _refuse_zone(self)
        super().__post_init__()

    @property
    def _default_column(self) -> str:
        return f"{_stem(self.column)}_hour"

    @property
    def _column_type(self) -> ValueType:
        return "timestamp"

    def _floor(self, local: datetime) -> datetime:
        return local.replace(minute=0, second=0, microsecond=0)

    def _following(self, local: datetime) -> datetime:
        return local + timedelta(hours=1)

    def _label(self, local: datetime) -> str:
        return local.isoformat(timespec="hours")

    def _parse(self, text: str) -> datetime | None:
        return _match(_HOUR, text)


@dataclass(frozen=True)
class Every(TimeScope):
    """One slice per `minutes` of UTC time of a TIMESTAMP column; `minutes` divides a day."""

    minutes: int = 15
    _grain: ClassVar[Grain] = "window"
    _noun: ClassVar[str] = "window"
    _example: ClassVar[str] = "2026-06-09T13:15"
    _value_type: ClassVar[ValueType] = "timestamp"

    def __post_init__(self) -> None:
        _refuse_zone(self)
        if self.minutes < 1 or 24 * 60 % self.minutes:
            raise DeclarationError(
                f"Every(minutes={self.minutes}) does not divide a day",
                fix="Use 1, 5, 10, 15, 20, 30, 60, 120, …",
            )
        super().__post_init__()

    @property
    def _default_column(self) -> str:
        return "window_start"

    @property
    def _column_type(self) -> ValueType:
        return "timestamp"

    def _floor(self, local: datetime) -> datetime:
        midnight = datetime(local.year, local.month, local.day)
        return midnight + (local - midnight) // timedelta(minutes=self.minutes) * timedelta(minutes=self.minutes)

    def _following(self, local: datetime) -> datetime:
        return local + timedelta(minutes=self.minutes)

    def _label(self, local: datetime) -> str:
        return local.isoformat(timespec="minutes")

    def _parse(self, text: str) -> datetime | None:
        local = _match(_WINDOW, text)
        return local if local is not None and self._floor(local) == local else None


@dataclass(frozen=True)
class Whole:
    """One slice: the whole table."""

    @property
    def only(self) -> Slice:
        return WHOLE


Scope = Daily | Monthly | Hourly | Every | Whole | Since
"""How a task's work is cut."""


def slice_column_of(scope: Scope) -> SliceColumn | None:
    """The slice column a scope gives its target, if it cuts by time."""
    return scope.held_in if isinstance(scope, TimeScope) else None


def label_of(scope: Scope) -> str:
    """A label of one of its slices, to compare its form with others."""
    match scope:
        case Whole() | Since():
            return scope.only.label
        case TimeScope():
            return scope.first.label
        case _:
            assert_never(scope)


def cut_of(scope: Scope) -> str:
    """How it cuts its slices: two scopes of one cut have the same slices under the same labels. (The *grain* is of a
    table's partitions: `targets.grain`.)"""
    match scope:
        case Whole() | Since():
            return scope.only.label
        case TimeScope():
            held = scope.held_in
            grain = cut_word(held)
            return f"{grain}@{held.zone}" if held.zone else grain
        case _:
            assert_never(scope)


def column_of_cut(scope: TimeScope, cut: str) -> str:
    """Where a scope of the same column that cuts like this holds its slices: by default another than this one does."""
    grain, _, zone = cut.partition("@")
    kinds: dict[str, type[TimeScope]] = {"month": Monthly, "hour": Hourly, "window": Every, "day": Daily}
    kind = kinds.get(grain.partition("/")[0])
    if kind is None or scope.slice_column is not None:
        return scope.held_in.name
    return kind(scope.column, start=kind._example, zone=zone or None).held_in.name


def slice_named(scope: Scope, text: str | None) -> Slice:
    """The slice a caller asks for. A time scope needs a date; the clock is never asked."""
    match scope:
        case Whole():
            return _only_slice(scope.only, text, "owns its whole table")
        case Since():
            return _only_slice(scope.only, text, "goes on from its mark")
        case TimeScope():
            return _slice_of_date(scope, text)
        case _:
            assert_never(scope)


def refuse_no_date(text: str) -> None:
    """Refuse what no scope of any task reads as a slice: for that, no project has to be read."""
    if text in (WHOLE.label, SINCE.label):
        return
    day = re.match(r"\d{4}-\d{2}(-\d{2})?(?!\d)", text)
    try:
        if day is not None:
            datetime.strptime(day[0], "%Y-%m-%d" if day[1] else "%Y-%m")
        elif not re.match(r"\d{4}", text):
            raise ValueError
    except ValueError:
        form = "Write it like 2026-06-09; a month like 2026-06, an hour like 2026-06-09T13."
        raise UsageError(f"{text!r} is not a date", fix=form) from None


def _only_slice(only: Slice, text: str | None, why: str) -> Slice:
    if text not in (None, only.label):
        raise UsageError(f"this task {why}; it has no slice {text!r}", fix=hint("Leave out {}.", option("date")))
    return only


def _slice_of_date(scope: TimeScope, text: str | None) -> Slice:
    if text is None:
        raise UsageError(
            f"no date given, and a {scope._noun} is never taken from the clock",
            fix=hint("Give the logical date: {}.", option("date", scope._example)),
        )
    return scope.slice_of(text)


def slices_named(scope: Scope, labels: Iterable[str]) -> tuple[Slice, ...]:
    """The slices with these labels, without those that the scope no longer has."""
    found = []
    for label in labels:
        try:
            found.append(slice_named(scope, label))
        except UsageError:
            continue
    return tuple(found)


def days(count: int) -> timedelta:
    """So many days, for `before=` and `lag=`."""
    return timedelta(days=count)


def hours(count: int) -> timedelta:
    """So many hours, for `before=` and `lag=`."""
    return timedelta(hours=count)


def _refuse_zone(scope: TimeScope) -> None:
    if scope.zone is not None:
        raise DeclarationError(
            "hours and shorter windows are UTC instants; a zone has no meaning for them",
            fix="Leave out zone=.",
        )


def _match(pattern: re.Pattern[str], text: str) -> datetime | None:
    """The time that a text of this form begins with: a year and a month, and as much more as there is."""
    if pattern.fullmatch(text) is None:
        return None
    # By position: strptime takes ten times as long, and a plan reads a hundred thousand labels.
    day, hour, minute = int(text[8:10] or 1), int(text[11:13] or 0), int(text[14:16] or 0)
    try:
        return datetime(int(text[0:4]), int(text[5:7]), day, hour, minute)
    except ValueError:
        return None


def _stem(column: str) -> str:
    return re.sub(r"_(at|ts|time|timestamp|date|day|datetime)$", "", column) or column
