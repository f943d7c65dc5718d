"""Days of a zone's calendar as stretches of time: where each begins, whatever its clocks did at midnight."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_YEARS = (1900, 2040)
"""Later years follow the rule of the last: no zone's rule puts clocks back over midnight now."""


def begin_of(local: datetime, zone: tzinfo) -> datetime:
    """The instant from which the zone's clocks show this time or a later one for good: where they were put back over
    midnight the day begins at the last midnight, where they skipped midnight at the jump."""
    if zone is timezone.utc:
        return local.replace(tzinfo=zone)
    first, last = (local.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc) for fold in (0, 1))
    if first == last:
        return first
    if first < last:  # shown twice; but 01:00 put back to 00:00 is the same day's hour once more
        return last if _shown(last - _TICK, zone) < local else first
    # Never shown. Clocks that jump at midnight itself reach it by the offset before; else the jump lies between these.
    while _shown(first - _TICK, zone) >= local:
        middle = last + (first - last) / 2
        first, last = (middle, last) if _shown(middle, zone) >= local else (first, middle)
    return first


def day_of(instant: datetime, zone: tzinfo) -> date:
    """The day that an instant is in: what the clocks show, but a midnight that comes again has not come yet."""
    shown = _shown(instant, zone).date()
    return shown if begin_of(_start(shown), zone) <= instant else shown - _DAY


def midnight(instant: datetime, zone: str | None) -> date | None:
    """The date that begins at this instant; None if none does."""
    there = timezone.utc if zone is None else ZoneInfo(zone)
    day = day_of(instant, there)
    return day if begin_of(_start(day), there) == instant else None


@lru_cache(maxsize=64)
def turned_back(zone: str) -> tuple[tuple[datetime, datetime, date], ...]:
    """Where clocks were put back over midnight: from its first to its last midnight, and the day that all of it is in.
    America/St_Johns did so from 1987 to 2011; most zones never."""
    there, found = ZoneInfo(zone), []
    noon = datetime(_YEARS[0], 1, 1, 12)
    before = noon.replace(tzinfo=there).utcoffset()
    while noon.year < _YEARS[1]:
        noon += _DAY
        offset = noon.replace(tzinfo=there).utcoffset()
        if offset != before:
            start = _start(noon.date())
            first, last = start.replace(tzinfo=there).astimezone(timezone.utc), begin_of(start, there)
            if first < last:
                found.append((first, last, noon.date() - _DAY))
        before = offset
    return tuple(found)


def _shown(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _start(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)
