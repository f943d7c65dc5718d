"""Keys that never change: the recipe `v1`, for Python values. `twice.engine.frames.keys` says the same to Spark.

A key is the first 32 hexadecimal digits (128 bits, lower case) of the SHA-256 of these bytes:

    twice/key/v1:   13 bytes of ASCII: what is hashed, and by which recipe
    value value …   each value in the order given, with nothing between them

A value is its tag (one ASCII letter), its text in UTF-8, and a semicolon:

    NULL                                  N;
    TINYINT SMALLINT INT BIGINT DECIMAL   n  plain digits; no exponent, plus sign, leading zero or trailing zero
    FLOAT DOUBLE                          f  the exact value in base 16, as Java's `%a` writes it; both zeros 0x0.0p0
    BOOLEAN                               b  true or false
    DATE                                  d  2026-06-09
    TIMESTAMP                             t  2026-06-09 22:15:00.000000, the instant in UTC, always six decimals
    TIMESTAMP_NTZ                         w  the same, as the clock on the wall shows it
    STRING                                s  number of bytes, a colon, the bytes; no Unicode normalisation
    BINARY                                x  two upper-case hexadecimal digits a byte

    surrogate_key("DE", 1001, None)  hashes  twice/key/v1:s2:DE;n1001;N;

Only a string can hold a semicolon, and a string says its length: two different lists of values never give the same
bytes. NULL has no type, since Python's None has none. Exact numbers are equal by value: a column that grows from INT
to BIGINT to DECIMAL(20,2) keeps its keys. A FLOAT is hashed as the DOUBLE of the same value.

A row hash is made the same way from `twice/row/v1:` and, for each column in the order of the names' code points,
the name as a STRING (in lower case: for Spark `Id` is `id`) and the value.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import pairwise

from twice.errors import UsageError

RECIPE = "v1"
"""Part of the hashed bytes. Another way to write values is another recipe, never a change of this one."""

KEY_HEADER = f"twice/key/{RECIPE}:"
ROW_HEADER = f"twice/row/{RECIPE}:"
NULL = "N;"
DIGITS = 32
"""128 bits: with a million million keys the chance of any two colliding is below 1 in 10^14."""

_LARGEST_SCALE = 38


@dataclass(frozen=True)
class WallTime:
    """A TIMESTAMP_NTZ: what the clock on the wall shows, without a zone.

    It must be given: PySpark hands out both kinds of timestamp as the same naive datetime.
    """

    value: datetime

    def __post_init__(self) -> None:
        if self.value.tzinfo is not None:
            raise UsageError(
                f"WallTime({self.value.isoformat()}) has a zone, and a TIMESTAMP_NTZ has none",
                fix="Give the datetime itself, without WallTime, to mean the instant.",
            )


def surrogate_key(*values: object) -> str:
    """The key of these values, in this order: the same from every process, machine, Spark session and SQL query."""
    return _digest(key_bytes(*values))


def key_bytes(*values: object) -> bytes:
    """What `surrogate_key` hashes, to compare with another implementation."""
    if not values:
        raise UsageError("surrogate_key needs at least one value")
    return KEY_HEADER.encode() + b"".join(encoded(value) for value in values)


def stable_row_hash(row: Mapping[str, object], *columns: str) -> str:
    """One hash for the values of a row, of all its columns or of those named, to see whether it changed.

    The order of the columns and the case of their names do not matter; a column more or fewer does.
    """
    chosen = {name: row[name] for name in columns} if columns else row
    parts = (part for name, key in row_order(chosen) for part in (encoded(key), encoded(chosen[name])))
    return _digest(ROW_HEADER.encode() + b"".join(parts))


def row_order(columns: Iterable[str]) -> list[tuple[str, str]]:
    """Each column with the name it is hashed by, in the order they are hashed."""
    ordered = sorted(((name, name.lower()) for name in columns), key=lambda pair: pair[1])
    if not ordered:
        raise UsageError("stable_row_hash needs at least one column")
    twins = [name for (_, name), (_, after) in pairwise(ordered) if name == after]
    if twins:
        raise UsageError(
            f"column {twins[0]} is there more than once (in any case of its letters)",
            fix="Rename one, or name the columns to hash.",
        )
    return ordered


def encoded(value: object) -> bytes:
    """One value as the recipe writes it."""
    if value is None:
        return NULL.encode()
    if isinstance(value, str):
        return _string(value)
    tag, text = _tagged(value)
    return f"{tag}{text};".encode()


def _digest(message: bytes) -> str:
    return hashlib.sha256(message).hexdigest()[:DIGITS]


def _string(value: str) -> bytes:
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{value!r} holds half of a surrogate pair, which UTF-8 cannot write",
            fix="No Spark string holds it either: find where the text was cut.",
        ) from error
    return f"s{len(text)}:".encode() + text + b";"


def _tagged(value: object) -> tuple[str, str]:
    # A bool is an int and a datetime is a date in Python, so they come first.
    if isinstance(value, bool):
        return "b", "true" if value else "false"
    if isinstance(value, int | Decimal):
        return "n", _exact(Decimal(value))
    if isinstance(value, float):
        return "f", _base_16(value)
    if isinstance(value, WallTime):
        return "w", _clock(value.value)
    if isinstance(value, datetime):
        return "t", _instant(value)
    if isinstance(value, date):
        return "d", value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "x", bytes(value).hex().upper()
    raise UsageError(
        f"a key does not take a {type(value).__module__}.{type(value).__qualname__}",
        fix="It takes None, str, bool, int, Decimal, float, date, datetime, WallTime and bytes: convert it first.",
    )


def _exact(value: Decimal) -> str:
    if not value.is_finite():
        raise UsageError(
            f"{value} is not an exact number", fix="Spark's DECIMAL has neither NaN nor infinity: use None."
        )
    sign, digits, scale = value.as_tuple()
    # Not normalize(): it rounds to the context's precision.
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    exponent = int(scale) + len(text) - len(short)
    if not short:
        return "0"
    if -exponent > _LARGEST_SCALE or len(short) + max(exponent, 0) > _LARGEST_SCALE:
        raise UsageError(f"{value} has more than 38 digits, and no Spark number holds it")
    return "-" * sign + _placed(short, exponent)


def _placed(digits: str, exponent: int) -> str:
    """The digits with their decimal point: 12 and -3 are 0.012, 12 and 3 are 12000."""
    if exponent >= 0:
        return digits + "0" * exponent
    padded = digits.rjust(1 - exponent, "0")
    return f"{padded[:exponent]}.{padded[exponent:]}"


def _base_16(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # Adding zero makes -0.0 positive. Python writes all 13 digits of the fraction, Java only those that count.
    mantissa, _, exponent = (float(value) + 0.0).hex().partition("p")
    whole, _, fraction = mantissa.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}p{int(exponent)}"


def _instant(value: datetime) -> str:
    if value.utcoffset() is None:
        raise UsageError(
            f"the datetime {value.isoformat()} has no zone, so it is not an instant: it would be another one elsewhere",
            fix="Give it a zone (tzinfo=timezone.utc), or wrap it in WallTime to mean a TIMESTAMP_NTZ.",
        )
    try:
        return _clock(value.astimezone(timezone.utc).replace(tzinfo=None))
    except OverflowError as error:
        raise UsageError(f"{value.isoformat()} is outside the years 1 to 9999 in UTC") from error


def _clock(value: datetime) -> str:
    # pandas has a datetime with nanoseconds; Spark has none, and cutting them would let two keys meet.
    if getattr(value, "nanosecond", 0):
        raise UsageError(f"{value.isoformat()} is finer than a microsecond, and no Spark timestamp is")
    return value.isoformat(sep=" ", timespec="microseconds")
