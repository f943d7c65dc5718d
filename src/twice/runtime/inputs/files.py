"""The files of one input: which of them each slice reads, as leaves that change exactly when they do.

Listed once for a run, and read by exactly these paths. Whether they are still what was listed is asked once more before
the publish: a file that was still being written is noticed, and nothing is published.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from twice.core.closed import assert_never
from twice.core.file_input import FileRead, Files, ListedFile, dates_read, pattern_of, reads_part
from twice.core.names.first_few import first_few
from twice.core.ports import INPUT_FILE, INPUT_FILES, Leaf
from twice.core.slice import Slice, labels_of
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import DeclarationError, FileChanged, InputMissing, StageMismatch, TwiceError, UserCodeError
from twice.runtime.inputs.listing import changed_files, list_files, state_of
from twice.runtime.inputs.places import Places

_NAMED_ALONE = 20
"""Of an input with more files than this, each is not recorded by itself."""

_SHOWN = 3


@dataclass(frozen=True)
class Listing:
    """The files of one input, by the label of the slice that reads them. `pattern`: what each slice looked for."""

    name: str
    source: Files
    patterns: Mapping[str, str]
    parts: Mapping[str, tuple[ListedFile, ...]]

    @property
    def files(self) -> tuple[ListedFile, ...]:
        """All of them, each once."""
        return tuple(sorted({file for part in self.parts.values() for file in part}))

    def to_read(self, places: Places) -> FileRead:
        return FileRead(self.name, self.source, self.files, _base(self, places), str(places.root))

    @property
    def not_watched(self) -> frozenset[str]:
        """What its leaves are called, if its changes do not count."""
        return frozenset() if self.source.watch else frozenset(self.patterns.values())

    def leaves(self, label: str) -> tuple[Leaf, ...]:
        """What a slice reads of it: the files together, and each one where they are few, so that a change is named."""
        files = self.parts[label]
        together = Leaf(INPUT_FILES, self.patterns[label], _digest([(f.path, f.size, f.modified) for f in files]))
        if len(files) > _NAMED_ALONE or not self.source.watch:
            return (together,)
        alone = [Leaf(INPUT_FILE, f.path, _digest([f.path, f.size, f.modified])) for f in files]
        return (together, *alone)


def list_input(places: Places, task: Task, name: str, slices: Sequence[Slice]) -> Listing:
    """The files of an input for these slices. Raises InputMissing for a slice without any, unless a day may be
    empty."""
    source = task.files[name]
    patterns, parts, by_folder = {}, {}, False
    known: dict[str, tuple[ListedFile, ...]] = {}
    for slice_ in slices:
        pattern = source.pattern
        if source.placeholders and isinstance(task.scope, TimeScope):
            pattern = pattern_of(source, task.scope, slice_)
        if pattern not in known:
            known[pattern] = list_files(pattern, places)
        patterns[slice_.label] = pattern
        parts[slice_.label], cut = _of_slice(source, task, slice_, known[pattern])
        by_folder = by_folder or cut
    listing = Listing(name, source, patterns, parts)
    _check_there(listing, [slice_ for slice_ in slices if not parts[slice_.label]], by_folder, places)
    return listing


def _of_slice(
    source: Files, task: Task, slice_: Slice, files: tuple[ListedFile, ...]
) -> tuple[tuple[ListedFile, ...], bool]:
    """Those that a slice reads, and whether their folders said so: a folder `dt=2026-06-09` of the column that the
    input is cut by holds no row of another day. A file whose folder does not say it belongs to every slice."""
    dates = dates_read(source, task.scope, slice_) if isinstance(task.scope, TimeScope) else None
    if source.by is None or dates is None:
        return files, False
    kept = tuple(file for file in files if reads_part(file.path, source.by, dates) is not False)
    return kept, bool(files) and all(reads_part(file.path, source.by, dates) is not None for file in files)


def _check_there(listing: Listing, without: Sequence[Slice], by_folder: bool, places: Places) -> None:
    """A slice without files, as declared. Where not even the folder is there that they all lie in, it is an error in
    any case: a disk that is not mounted would empty every day."""
    source = listing.source
    if not without:
        return
    looked_for = listing.patterns[without[0].label]
    day = f" of {labels_of(tuple(without))}" if by_folder else ""
    match source.missing:
        case "error":
            raise InputMissing(
                f"the input {listing.name} has no file{day}: {looked_for}",
                fix='Run it again when the file is there. Where a slice may be without one, say missing="empty".',
            )
        case "empty":
            if state_of(Path(places.full(source.anchor or "."))) is None:
                raise InputMissing(
                    f'the input {listing.name} has missing="empty", but the folder {source.anchor} itself is not there',
                    fix="Mount or create it. A slice is taken to be empty only where the folder shows that it is.",
                )
        case _:
            assert_never(source.missing)


def _base(listing: Listing, places: Places) -> str | None:
    """The folder above those that name columns. Spark takes their values from it on."""
    found = {base for file in listing.files if (base := _above_columns(file.place)) is not None}
    if len(found) > 1:
        raise DeclarationError(
            f"the input {listing.name} has folders column=value in several places: "
            f"{', '.join(sorted(map(places.named, found))[:_SHOWN])}",
            fix="Put them below one folder: landing/dt=2026-06-09/region=eu.",
        )
    return next(iter(found), None)


def _above_columns(place: str) -> str | None:
    parts = place.split("/")
    first = next((at for at, part in enumerate(parts[:-1]) if "=" in part), None)
    return None if first is None else "/".join(parts[:first]) or "/"


def refuse_changed(listings: Iterable[Listing]) -> None:
    """Raise FileChanged if a file is no longer what was listed. Nothing was published; a new attempt lists again."""
    found = [changed for listing in listings for changed in changed_files(listing.files)]
    if found:
        raise _changed(found)


@contextmanager
def blaming_changed_files(listings: Mapping[str, Listing]) -> Iterator[None]:
    """What goes wrong while files are read that changed meanwhile, has that reason: it passes, whatever Spark says."""
    try:
        yield
    except Exception as error:
        ours = isinstance(error, TwiceError) and not isinstance(error, UserCodeError | StageMismatch)
        found = [] if ours else [each for listing in listings.values() for each in changed_files(listing.files)]
        if found:
            raise _changed(found) from error
        raise


def _changed(found: Sequence[str]) -> FileChanged:
    return FileChanged(
        f"input files changed while they were read: {first_few(found)}",
        fix="Run it again. A program that writes a file under another name and renames it at the end is never met "
        "half-way.",
    )


def _digest(value: object) -> str:
    return hashlib.sha256(f"files 1\n{json.dumps(value)}".encode()).hexdigest()[:32]
