"""What callers give, as the project takes it. What makes no sense is refused before anything is opened."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from twice.core.backfill.plan import CHOICES, DEFAULT, BatchSize, StatusChoice, parse_batch, parse_only
from twice.errors import UsageError

MOST_PARALLEL = 64


def label(date: str | datetime.date | None) -> str | None:
    return date.isoformat() if isinstance(date, datetime.date) else date


def seconds(wait: float | datetime.timedelta | None) -> datetime.timedelta | None:
    found = wait if wait is None or isinstance(wait, datetime.timedelta) else datetime.timedelta(seconds=wait)
    if found is not None and found < datetime.timedelta(0):
        raise UsageError(f"wait={wait!r} is negative", fix="Give the seconds to wait, from 0 on.")
    return found


def statuses(only: Sequence[StatusChoice] | None, restate: bool) -> tuple[StatusChoice, ...]:
    return parse_only(",".join(several("only", only) or (CHOICES if restate else DEFAULT)))


def batch_of(batch: BatchSize) -> BatchSize:
    return parse_batch(str(batch))


def is_silent(effects: str) -> bool:
    if effects not in ("silent", "send"):
        raise UsageError(f"effects={effects!r} is not known", fix='Give "silent" or "send".')
    return effects == "silent"


def several(name: str, values: Sequence[str] | None) -> tuple[str, ...]:
    """A text is a sequence of letters, and never what was meant."""
    if isinstance(values, str):
        raise UsageError(f'{name}="{values}" must be a list, not a string', fix=f'Write {name}=["{values}"].')
    return tuple(values or ())


def number(name: str, value: int | None, most: int | None = None) -> int | None:
    if value is not None and (value < 1 or (most is not None and value > most)):
        upto = "on" if most is None else f"to {most}"
        wrong = "must be at least 1" if value < 1 else f"must be at most {most}"
        raise UsageError(f"{name}={value} {wrong}", fix=f"Give a number from 1 {upto}.")
    return value
