"""Files as an input: which files of a folder a slice reads, how they are read, and what a missing one means. Pure: who
lists them is the runtime's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Literal, Protocol, get_args
from urllib.parse import unquote

from twice.core.local_day import midnight
from twice.core.names.local_path import local_path
from twice.core.slice import Slice
from twice.core.time_scope import Grain, TimeScope
from twice.errors import DeclarationError

FileFormat = Literal["csv", "json", "parquet", "orc", "text", "xml"]
"""How files become rows: Spark's own readers."""

Missing = Literal["error", "empty"]
"""What it means that a slice has no file: the run fails, or the slice has no rows from this input."""

WILDCARDS = "*?["
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_OF_GRAIN: Mapping[Grain, tuple[str, ...]] = {
    "month": ("year", "month"),
    "day": ("year", "month", "day"),
    "hour": ("year", "month", "day", "hour"),
    "window": ("year", "month", "day", "hour", "minute"),
}
_WHOLE_SLICE = ("ds", "label", "start", "end")
PLACEHOLDERS = (*_WHOLE_SLICE, *_OF_GRAIN["window"])


class SparkSchema(Protocol):
    """A `pyspark.sql.types.StructType`."""

    def json(self) -> str: ...


@dataclass(frozen=True)
class Files:
    """An input that is files. With a placeholder in its pattern each slice has its own files; with `by`, rows are cut
    to the slice on that column, as those of a table are. `schema`: a text of columns and types, or Spark's JSON."""

    pattern: str
    format: FileFormat
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    before: timedelta = timedelta(0)
    missing: Missing = "error"
    path_column: str | None = None
    watch: bool = True

    @property
    def placeholders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(self.pattern)))

    @property
    def anchor(self) -> str:
        """The folder that all its files lie in, whatever the slice: what is before the first component with a
        wildcard or a placeholder. Empty for the project's own folder."""
        parts = self.pattern.split("/")
        fixed = next((at for at, part in enumerate(parts) if any(c in part for c in WILDCARDS + "{")), len(parts) - 1)
        return "/".join(parts[:fixed]) or ("/" if self.pattern.startswith("/") else "")


@dataclass(frozen=True, order=True)
class ListedFile:
    """One file as it was when it was listed. `path` is how it is called: from the project's folder on, where it lies
    in it. `modified`: nanoseconds. `place`: where it is on this machine."""

    path: str
    size: int
    modified: int
    place: str = field(compare=False, default="")


@dataclass(frozen=True)
class FileRead:
    """Exactly these files, to be read as an input of that name. `base`: the folder whose subfolders `column=value` are
    columns, if there are any. `root`: what the paths in `path_column` begin after."""

    name: str
    source: Files
    files: tuple[ListedFile, ...]
    base: str | None
    root: str


def of_one_slice(source: Files, scope: TimeScope) -> bool:
    """Whether the pattern distinguishes every slice from every other."""
    found = set(source.placeholders)
    return bool(found & set(_WHOLE_SLICE)) or found >= set(_OF_GRAIN[scope.held_in.grain])


def pattern_of(source: Files, scope: TimeScope, slice_: Slice) -> str:
    """The pattern with the slice's values in the place of its placeholders."""
    values = _values(scope, slice_)
    return _PLACEHOLDER.sub(lambda found: values[found[1]], source.pattern)


def declare_files(source: Files) -> Files:
    """The same, once its declaration is shown to make sense by itself."""
    text = f"read.files({source.pattern!r})"
    _check_choices(source, text)
    _check_pattern(source.pattern, text)
    if source.missing == "empty" and source.schema is None:
        raise DeclarationError(
            f'{text}: missing="empty" needs schema=, since no file is there to say which columns it has',
            fix='Write schema="order_id BIGINT, order_date DATE, amount DOUBLE".',
        )
    if source.by == "" or source.path_column == "":
        raise DeclarationError(f"{text}: the name of a column is empty", fix="Leave it out, or name the column.")
    if source.before < timedelta(0):
        raise DeclarationError(f"{text}: before={source.before} is negative", fix="Write before=days(7).")
    if source.before and (source.by is None or source.placeholders):
        raise DeclarationError(
            f"{text}: before= needs by=, and a pattern without a placeholder",
            fix="The files of a placeholder are those of the slice alone; read the folder above, cut with by=.",
        )
    return source


def _check_choices(source: Files, text: str) -> None:
    if source.format not in get_args(FileFormat):
        raise DeclarationError(
            f"{text}: format={source.format!r} is not known", fix=f"Known: {', '.join(get_args(FileFormat))}."
        )
    if source.missing not in get_args(Missing):
        raise DeclarationError(
            f"{text}: missing={source.missing!r} is not known", fix='Say missing="error" or missing="empty".'
        )


def _check_pattern(pattern: str, text: str) -> None:
    path = local_path(pattern, text)
    unknown = [name for name in _PLACEHOLDER.findall(pattern) if name not in PLACEHOLDERS]
    if unknown or "{" in _PLACEHOLDER.sub("", pattern) or "}" in _PLACEHOLDER.sub("", pattern):
        raise DeclarationError(
            f"{text}: there is no placeholder {{{unknown[0]}}}" if unknown else f"{text}: a brace is not closed",
            fix=f"Known: {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}.",
        )
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise DeclarationError(f"{text} names no file", fix='Write read.files("landing/{ds}/*.csv", format="csv").')
    if ".." in parts:
        raise DeclarationError(
            f"{text}: .. is not followed",
            fix='Paths begin in the project\'s folder. Name another one in full, and allow it: roots = ["/data"] in '
            "twice.toml.",
        )
    hidden = [part for part in parts if is_hidden(part)]
    if hidden:
        raise DeclarationError(
            f"{text}: Spark does not read what begins with _ or a dot, as {hidden[0]} does", fix="Rename it."
        )


def is_hidden(name: str) -> bool:
    """What Spark's readers leave out: files of other programs, and those that are still being copied."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def check_placeholders(source: Files, scope: TimeScope, where: str) -> None:
    """Raise DeclarationError for a placeholder that has several values in one slice, and for slices in company that
    could not be distinguished."""
    known = (*_WHOLE_SLICE, *_OF_GRAIN[scope.held_in.grain])
    for name in source.placeholders:
        if name not in known:
            raise DeclarationError(
                f"read.files({source.pattern!r}): one slice of {type(scope).__name__}(…) has more than one {name}",
                where=where,
                fix=f"Write * in the place of {{{name}}}. Known here: {', '.join(f'{{{each}}}' for each in known)}.",
            )
    if source.placeholders and scope.batch:
        raise DeclarationError(
            f"batch=True computes several slices at once, and read.files({source.pattern!r}) has files for each: a row "
            "in the file of another day would be published with its own day, which no run of one slice would do",
            where=where,
            fix="Leave out batch=True. Or name the folders after a column, dt=2026-06-09, and read them like a table: "
            'read.files("landing", by="dt", …).',
        )


def part_of(path: str, column: str) -> str | None:
    """The value of a column that a file's folders name, as in `dt=2026-06-09`; None if they do not."""
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and unquote(name).lower() == column.lower():
            return unquote(value)
    return None


def dates_read(source: Files, scope: TimeScope, slice_: Slice) -> tuple[date, date] | None:
    """`[first, end)`: the dates of the column it is cut by that a slice reads; None where dates do not say it."""
    if source.by is None:
        return None
    first = midnight(scope.widened(slice_, source.before), scope.zone)
    end = midnight(slice_.end, scope.zone)
    return None if first is None or end is None else (first, end)


def reads_part(path: str, column: str, dates: tuple[date, date]) -> bool | None:
    """Whether a file belongs to these dates, by the folder it lies in; None if the folder does not say."""
    value = part_of(path, column)
    try:
        return None if value is None else dates[0] <= date.fromisoformat(value) < dates[1]
    except ValueError:
        return None


def _values(scope: TimeScope, slice_: Slice) -> dict[str, str]:
    begin, following = scope.local_start(slice_), scope.slice_at(slice_.end)
    whole_days = scope.held_in.grain in ("day", "month")

    def moment(local: datetime, label: str) -> str:
        return local.date().isoformat() if whole_days else label

    return {
        "ds": slice_.label,
        "label": slice_.label,
        "start": moment(begin, slice_.label),
        "end": moment(scope.local_start(following), following.label),
        "year": f"{begin.year:04d}",
        "month": f"{begin.month:02d}",
        "day": f"{begin.day:02d}",
        "hour": f"{begin.hour:02d}",
        "minute": f"{begin.minute:02d}",
    }
