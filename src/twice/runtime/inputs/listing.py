"""Which files there are, by a pattern: found once, then read by exactly these paths. Reads folders, never a file.

A folder that cannot be listed is an error, not an empty one: an empty day would be published for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from twice.core.file_input import WILDCARDS, ListedFile, is_hidden
from twice.errors import DeclarationError, InputMissing
from twice.runtime.inputs.places import Places

_ANY_DEPTH = "**"


def list_files(pattern: str, places: Places) -> tuple[ListedFile, ...]:
    """Every file that the pattern names, each once, in the order of their paths. What a folder holds belongs to it.
    Raises InputMissing where a folder cannot be read, and DeclarationError for what twice.toml does not allow."""
    what, full = f"read.files({pattern!r})", Path(places.full(pattern))
    try:
        found = {file for match in _matches(Path(full.anchor), full.parts[1:]) for file in _files_in(match)}
        _refuse_delta(found, what, places)
        listed = [_listed(file, what, places) for file in sorted(found)]
    except OSError as error:
        raise InputMissing(
            f"{places.named(str(error.filename))} cannot be listed: {error.strerror}",
            fix="Give this user the right to read it, or mount what it is on.",
        ) from error
    return tuple(file for file in listed if file is not None)


def state_of(place: Path) -> tuple[int, int] | None:
    """Size and time of the last change; None for a file that is gone."""
    try:
        found = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns


def changed_files(files: Sequence[ListedFile]) -> tuple[str, ...]:
    """Those that are not any more what was listed, each with what became of it. Files that came since do not count:
    they are for the next run."""
    found = []
    for file in files:
        state = state_of(Path(file.place))
        if state is None:
            found.append(f"{file.path} is gone")
        elif state[0] != file.size:
            found.append(f"{file.path} has {state[0]} bytes, and had {file.size}")
        elif state[1] != file.modified:
            found.append(f"{file.path} was written again")
    return tuple(found)


def _listed(place: Path, what: str, places: Places) -> ListedFile | None:
    """None for one that was gone before it was looked at: it was on its way out when the folder was listed."""
    places.refuse_outside(str(place), what)
    if ":" in place.name:
        raise DeclarationError(
            f"{what} reads {places.named(str(place))}, and Spark cannot read a file with a colon in its name",
            fix="Rename it, or name it by {hour} and {minute}.",
        )
    state = state_of(place)
    return None if state is None else ListedFile(places.named(str(place)), *state, str(place))


def _matches(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """What the rest of a pattern names in a folder."""
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if part == _ANY_DEPTH:
        yield from _matches(folder, rest)
        for inner in _inside(folder):
            if inner.is_dir() and not inner.is_symlink():
                yield from _matches(inner, parts)
    elif any(character in part for character in WILDCARDS):
        for inner in _inside(folder):
            if fnmatchcase(inner.name, part):
                yield from _matches(inner, rest)
    elif state_of(folder / part) is not None:  # not `exists`: what may not be asked for is no answer
        yield from _matches(folder / part, rest)


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(inner for inner in folder.iterdir() if not is_hidden(inner.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files_in(place: Path, above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The file itself, or all that are in a folder. A link that leads back to a folder above is not followed again."""
    if not place.is_dir():
        yield place
        return
    real = os.path.realpath(place)
    for inner in _inside(place) if real not in above else ():
        yield from _files_in(inner, above | {real})


def _refuse_delta(found: set[Path], what: str, places: Places) -> None:
    """The files of a Delta table include rows that were deleted or replaced: only its log says which count."""
    for folder in sorted({parent for place in {file.parent for file in found} for parent in (place, *place.parents)}):
        if (folder / "_delta_log").is_dir():
            raise DeclarationError(
                f"{what} reads files of the Delta table {places.named(str(folder))}, also those whose rows were "
                "replaced",
                fix='Read the table: read("schema.table", by=…).',
            )
