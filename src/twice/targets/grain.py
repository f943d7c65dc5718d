"""How fine a table's partitions are, and whether a scope's slices can be made of whole partitions.

A finer scope over coarser partitions would take rows of other slices away with its own: it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone

from twice.core.slice import SliceValue
from twice.core.time_scope import SliceColumn, cut_word
from twice.core.write import Cut, appended_again, cut_text
from twice.errors import OTHER_SCOPE, DeclarationError, LayoutDiffers, TableTaken

CUT = "twice.slices"
"""Under this name a table remembers how its slices are cut, where none of its columns tells them apart."""

MARK = "twice.partitions"
"""Under this name a table remembers the grain it was created with: values alone do not show it (the first of a
month is also a day)."""


def partition_grain(column: SliceColumn) -> str:
    """The grain of the partitions this scope makes: `day`, `day@Europe/Berlin`, `month`, `hour`, `window/15`.

    It is the scope's cut but for one case: a scope that takes a DATE column as it is makes one partition a day, also
    when its slices are months.
    """
    grain = "day" if not column.derived and column.type == "date" else cut_word(column)
    return f"{grain}@{column.zone}" if column.zone else grain


def check_partitioning(table: str, partition_columns: Sequence[str], wanted: SliceColumn | None) -> None:
    """Refuse a table whose files the slice column does not distinguish: it must be among the partition columns."""
    held = tuple(column.lower() for column in partition_columns)
    if (wanted is None and held) or (wanted is not None and wanted.name.lower() not in held):
        by = f"is partitioned by {', '.join(partition_columns)}" if held else "is not partitioned"
        raise LayoutDiffers(
            f"{table} {by}, and this scope needs {f'partitions by {wanted.name}' if wanted else 'no partitions'}",
            now="The table is unchanged.",
            fix="Use the scope the table was created with, or give the task a new target. If the table was made "
            f"elsewhere, let twice rewrite it with the right partitioning: twice adopt {table} --task … --lay-out.",
        )


def check_grain(table: str, recorded: str | None, column: SliceColumn) -> None:
    """Refuse slices that are not made of whole partitions, as far as the table remembers what it holds."""
    if recorded is None or recorded == partition_grain(column):
        return
    held, _, zone = recorded.partition("@")
    minutes = _minutes(held)
    ours = _minutes(cut_word(column))
    coarser = not column.derived and zone == (column.zone or "")
    if coarser and minutes is not None and ours is not None and ours % minutes == 0:
        return
    raise DeclarationError(
        f"{table} holds one partition per {cut_text(recorded)}, and this scope cuts it by "
        f"{cut_text(partition_grain(column))}",
        now="The table is unchanged.",
        fix="Use the scope the table was created with, or give the task a new target.",
    )


def check_cut(table: str, recorded: str | None, cut: Cut | None) -> None:
    """Refuse to append slices that are cut differently than those the same task has appended: their rows would come
    twice. Of a table that another task made, and was taken over from, nothing is known."""
    if cut is None or recorded is None:
        return
    owner, _, how = recorded.rpartition(" ")
    if owner == cut.owner and how != cut.how:
        raise TableTaken(appended_again(table, how, cut.how), now="The table is unchanged.", fix=OTHER_SCOPE)


def check_values(table: str, recorded: str | None, values: Iterable[SliceValue | None], column: SliceColumn) -> None:
    """Refuse a partition value that no label of the scope names: a slice would never own it."""
    step = _minutes((recorded or "").partition("@")[0]) or _minutes(partition_grain(column).partition("@")[0])
    for value in values:
        # Rows without a date belong to no slice; other writers put them there and no slice touches them.
        if value is not None and not on_boundary(value, column, step):
            raise DeclarationError(
                f"{table} has a partition {column.name} = {value}, "
                f"between two boundaries of a {cut_text(partition_grain(column))}",
                now="The table is unchanged.",
                fix="Use a scope as fine as the table's partitions, or give the task a new target.",
            )


def on_boundary(value: SliceValue, column: SliceColumn, minutes: int | None) -> bool:
    if not isinstance(value, datetime):
        return column.grain != "month" or not column.derived or value.day == 1
    instant = value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)
    midnight = datetime(instant.year, instant.month, instant.day, tzinfo=timezone.utc)
    return minutes is None or (instant - midnight) % timedelta(minutes=minutes) == timedelta(0)


def as_utc(value: SliceValue) -> SliceValue:
    """Timestamps as UTC instants (one without a zone is taken to be UTC); dates as they are."""
    if not isinstance(value, datetime):
        return value
    return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)


def slice_value(text: str | None, type_: str) -> SliceValue | None:
    """A partition value as it is written in a table's log or in a folder's name, in its own type."""
    if text is None or text == "":
        return None
    if type_ == "date":
        return date.fromisoformat(text)
    return as_utc(datetime.fromisoformat(_padded(text.replace("Z", "+00:00"))))


def _padded(text: str) -> str:
    """Python 3.10 reads 0, 3 or 6 digits of a second's fraction; Spark drops trailing zeros."""
    head, dot, tail = text.partition(".")
    if not dot:
        return text
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"


def _minutes(grain: str) -> int | None:
    if grain == "hour":
        return 60
    return int(grain.removeprefix("window/")) if grain.startswith("window/") else None
