"""What a commit is about to do, checked in typed values before it does it. Pure.

Delta's own pruning may hand back files of other slices (a predicate it does not recognise as partition-only gives
candidates); a commit that removed those would lose other days. So nothing is taken on trust here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from twice.core.slice import Owners, Slice, labels_of
from twice.errors import RowsOutsideSlice, StageLost, StageMismatch
from twice.targets.grain import slice_value

_SHOWN = 3


@dataclass(frozen=True)
class DataFile:
    """A data file of the log. `value` is its slice column's value as text, None for NULL; `rows` are those that are
    not deleted, `size` is in bytes; None if unknown."""

    path: str
    value: str | None
    rows: int | None
    size: int | None = None


@dataclass(frozen=True)
class SliceType:
    """The slice column's type in the table (`date` or `timestamp`), None where the table has no slice column."""

    name: str | None


def file_of(action: str, column: str | None) -> DataFile:
    """Read Delta's JSON of an added file."""
    body = json.loads(action)["add"]
    stats = json.loads(body.get("stats") or "{}")
    values: Mapping[str, str | None] = body.get("partitionValues") or {}
    rows = stats.get("numRecords")
    deleted = (body.get("deletionVector") or {}).get("cardinality", 0)
    value = None if column is None else values.get(column)
    return DataFile(body["path"], value, None if rows is None else rows - deleted, body.get("size"))


def check_whole(staged: Sequence[DataFile], sizes: Mapping[str, int]) -> None:
    """Raises StageLost unless every staged file is there, as long as it was written. `sizes`: those that were found,
    by path."""
    gone = [file for file in staged if file.path not in sizes]
    cut = [file for file in staged if file.path in sizes and file.size not in (None, sizes[file.path])]
    if gone or cut:
        problem = (
            f"{len(gone)} of {len(staged)} staged files are gone" if gone else f"{len(cut)} staged files were changed"
        )
        raise StageLost(
            f"{problem}, e.g. {(gone or cut)[0].path}: deleted before they were published (by VACUUM, or after another "
            "attempt had published), or written to a disk that this machine does not see",
            fix="Run the task again: it computes the rows again. Executors must write to the table's own disk.",
        )


def in_all(files: Sequence[DataFile]) -> int:
    """Their rows. Raises for a file that does not say how many it has."""
    for file in files:
        if file.rows is None:
            raise StageMismatch(f"the staged file {file.path} does not say how many rows it holds")
    return sum(file.rows or 0 for file in files)


def at_paths(files: Sequence[Any], paths: Iterable[str]) -> list[Any]:
    """Of Delta's added files those at these places (URIs, as a scan names them). Raises if one of them is not there:
    its rows would stay beside their successors."""
    wanted = {unquote(urlsplit(path).path) for path in paths}
    by_name: dict[str, list[str]] = {}
    for place in wanted:
        by_name.setdefault(place.rpartition("/")[2], []).append(place)
    found = {}
    for file in files:
        # The log's paths are relative to the table, or URIs of their own.
        path = unquote(urlsplit(str(file.path())).path)
        for place in by_name.get(path.rpartition("/")[2], ()):
            if place == path or place.endswith(f"/{path}"):
                found[place] = file
    if set(found) != wanted:
        raise StageMismatch(
            f"{len(wanted - set(found))} of the files that hold rows to change are not in the table's log",
            fix="This is a defect of twice or an unknown Delta version; please report it.",
        )
    return list(found.values())


def count(files: Sequence[DataFile], slices: Sequence[Slice], type_: SliceType) -> dict[str, int]:
    """Rows by slice label. Raises for a file outside the slices, or one that does not say how many rows it has."""
    counts = {slice_.label: 0 for slice_ in slices}
    owners = _Owners(slices, type_)
    for file in files:
        owner = owners.of(file)
        if owner is None:
            raise RowsOutsideSlice(
                f"the result has rows outside {labels_of(slices)}: {_described(file)}",
                fix="Filter the result to its slice.",
            )
        if file.rows is None:
            raise StageMismatch(f"the staged file {file.path} does not say how many rows it holds")
        counts[owner.label] += file.rows
    return counts


def verify(
    added: Sequence[DataFile],
    removed: Sequence[DataFile],
    slices: Sequence[Slice],
    type_: SliceType,
    expected: Mapping[str, int],
) -> None:
    """Raises StageMismatch unless the commit touches these slices only and adds exactly the staged rows."""
    owners = _Owners(slices, type_)
    strays = [file for file in (*added, *removed) if owners.of(file) is None]
    if strays:
        raise StageMismatch(
            f"the commit would touch files outside {labels_of(slices)}: {', '.join(map(_described, strays[:_SHOWN]))}",
            fix="This is a defect of twice or an unknown Delta version; please report it.",
        )
    if count(added, slices, type_) != dict(expected):
        raise StageMismatch("the staged files do not hold the rows that were staged", fix="Run the task again.")


class _Owners:
    """Which slice a file belongs to."""

    def __init__(self, slices: Sequence[Slice], type_: SliceType) -> None:
        self._type, self._owners = type_, Owners(slices)
        self._whole = next((slice_ for slice_ in slices if slice_.bounds is None), None)

    def of(self, file: DataFile) -> Slice | None:
        if self._type.name is None:
            return self._whole
        try:
            return self._owners.of(slice_value(file.value, self._type.name))
        except ValueError:
            return None


def _described(file: DataFile) -> str:
    return f"{file.path} ({'NULL' if file.value is None else file.value})"
