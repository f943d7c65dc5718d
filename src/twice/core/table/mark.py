"""A mark as a token's version: absolute, and saying of itself what it counts. Pure.

A version is a whole number from 1 to 2^63 - 1. Where it lies says what kind of cursor it is a mark of, so that no
declaration is needed to read it, and none that is changed later can move it:

    1 … 2^60 - 1                  counted from the `initial` of its time: written before decision 0012, never now
    2^60 … 2^60 + 2^59 - 1        an instant: microseconds since 1970, around 2^60 + 2^58
    2^60 + 2^59 … 2^61 - 1        a date: days since 1970, around 2^60 + 2^59 + 2^58
    2^61 … 2^63 - 1               a whole number, around 2^62

Within one kind a greater mark has a greater version, and every kind is above what was counted: where Delta itself
compares the versions, they grow.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone

from twice.core.since import CursorType, CursorValue, mark_text, type_of
from twice.errors import UsageError

_COUNTED_BELOW = 2**60
_DATES_FROM = 2**60 + 2**59
_NUMBERS_FROM, _NUMBERS_BELOW = 2**61, 2**63
LAST_OF_KINDS = (_COUNTED_BELOW - 1, _DATES_FROM - 1, _NUMBERS_FROM - 1, _NUMBERS_BELOW - 1)
"""The greatest version of each kind, the counted ones first."""

_ZERO: dict[CursorType, int] = {
    "timestamp": 2**60 + 2**58,
    "date": _DATES_FROM + 2**58,
    "integer": 2**62,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_ROWS = re.compile(r"rows of \[\S+, (\S+)[\])]")
_RESET = re.compile(r"mark reset from \S+ to (\S+) by ")


def version_of(mark: CursorValue) -> int:
    """The token's version of a mark. Raises UsageError for a number that no version can stand for."""
    version = _ZERO[type_of(mark)] + _count(mark)
    if type_of(mark) == "integer" and not _NUMBERS_FROM <= version < _NUMBERS_BELOW:
        raise UsageError(
            f"the cursor's value {mark_text(mark)} is too far from 0 to be a mark",
            fix=f"Marks reach from {-(2**61)} to {2**62 - 1}: take a cursor within.",
        )
    return version


def version_of_value(value: object) -> int | None:
    """The version of a mark at this value of a column; None if no mark can stand there."""
    if isinstance(value, bool) or not isinstance(value, int | date):
        return None
    if isinstance(value, datetime) and value.tzinfo is None:
        return None
    try:
        return version_of(value)
    except UsageError:
        return None


def version_of_count(kind: CursorType, count: int) -> int | None:
    """The same of a value that is counted already: microseconds or days since 1970, or the number itself."""
    version = _ZERO[kind] + count
    return version if kind_of(version) == kind and version < _NUMBERS_BELOW else None


def kind_of(version: int) -> CursorType | None:
    """What kind of cursor a version is a mark of; None where it was counted from an `initial`."""
    if version < _COUNTED_BELOW:
        return None
    if version >= _NUMBERS_FROM:
        return "integer"
    return "date" if version >= _DATES_FROM else "timestamp"


def last_of_kind(version: int) -> int:
    """The greatest version of the same kind."""
    return next(last for last in LAST_OF_KINDS if version <= last)


def mark_of(version: int) -> CursorValue:
    """The mark of a version that says it by itself (`kind_of` is not None)."""
    kind = kind_of(version)
    assert kind is not None, version
    count = version - _ZERO[kind]
    if kind == "integer":
        return count
    return _EPOCH + count * _MICROSECOND if kind == "timestamp" else _EPOCH.date() + timedelta(days=count)


def counted_from(initial: CursorValue, version: int) -> CursorValue:
    """The mark of a version that was counted from an `initial`: one more than how far it lies behind it."""
    if isinstance(initial, datetime):
        return initial + (version - 1) * _MICROSECOND
    return initial + (version - 1) if isinstance(initial, int) else initial + timedelta(days=version - 1)


def version_text(generation: int) -> str:
    """A token's version for people: the mark it says, or the how-manieth publish it is."""
    return f"generation {generation}" if kind_of(generation) is None else f"mark {mark_text(mark_of(generation))}"


def version_cell(generation: int) -> int | str:
    """The same where something else says which of both it is, such as the head of a column."""
    return generation if kind_of(generation) is None else mark_text(mark_of(generation))


def mark_in(why: str | None) -> CursorValue | None:
    """The mark that an attempt moved to, by the reason that was kept with it; None if that does not say."""
    found = _ROWS.fullmatch(why or "") or _RESET.match(why or "")
    if found is None:
        return None
    text = found[1]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def _count(mark: CursorValue) -> int:
    if isinstance(mark, int):
        return mark
    return (mark - _EPOCH) // _MICROSECOND if isinstance(mark, datetime) else (mark - _EPOCH.date()).days
