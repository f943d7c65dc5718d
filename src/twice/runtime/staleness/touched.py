"""Which slices a table's commits may have touched, by what they read of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from twice.core.ports import ChangedRange, Touched
from twice.core.slice import Slice
from twice.core.task import Read, Task
from twice.core.time_scope import TimeScope

_INSTANT = timedelta(microseconds=1)


def newest_touch(task: Task, slices: Sequence[Slice], source: Read, touched: Touched) -> dict[str, int]:
    """By label: the newest commit that may have touched what the slice reads. Spans fall on few slices each, so this
    is quick for ten thousand of both."""
    spans = touched.spans or ()
    everywhere = max((span.version for span in spans if span.low is None or span.high is None), default=-1)
    newest = dict.fromkeys((slice_.label for slice_ in slices), everywhere) if everywhere >= 0 else {}
    if source.by is None or not isinstance(task.scope, TimeScope):
        anywhere = max((span.version for span in spans), default=-1)
        return dict.fromkeys((slice_.label for slice_ in slices), anywhere)
    ordered = sorted(slices)
    zone = ZoneInfo(task.scope.zone) if task.scope.zone else timezone.utc
    begins = [task.scope.widened(slice_, source.before) for slice_ in ordered]
    ends = [slice_.end for slice_ in ordered]
    for span in spans:
        if span.low is None or span.high is None:
            continue
        low, high = _instants(span, zone)
        for at in range(bisect_right(ends, low), bisect_left(begins, high)):
            label = ordered[at].label
            newest[label] = max(span.version, newest.get(label, -1))
    return newest


def _instants(span: ChangedRange, zone: Any) -> tuple[datetime, datetime]:
    """`[low, high)` as instants. A date is meant as a day of the scope's zone, as when an input is cut. Where there is
    no instant so early or so late, the first or the last one there is: 9999-12-31 is a date that people write."""
    assert span.low is not None and span.high is not None
    low, high = datetime.min.replace(tzinfo=timezone.utc), datetime.max.replace(tzinfo=timezone.utc)
    with suppress(OverflowError):
        low = _begin(span.low, zone)
    with suppress(OverflowError):
        end = span.high + (_INSTANT if isinstance(span.high, datetime) else timedelta(days=1))
        high = _begin(end, zone)
    return low, high


def _begin(value: date | datetime, zone: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=zone).astimezone(timezone.utc)
