"""The inputs of one run: each table at one version, files as they were listed, values as they were read, cut to the
slices. Nothing here writes, and no job over the data runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from twice.core.closed import assert_never
from twice.core.file_input import Files
from twice.core.param import Param
from twice.core.ports import Frame, Leaf, Portion
from twice.core.scope import Whole
from twice.core.since import Since, Window
from twice.core.slice import Slice
from twice.core.task import Read, TableName, Task
from twice.core.time_scope import TimeScope
from twice.errors import InputMissing
from twice.runtime.context import RunContext
from twice.runtime.inputs.files import Listing, blaming_changed_files, list_input, refuse_changed
from twice.runtime.inputs.params import ParamValue, load_param


@dataclass(frozen=True)
class Pin:
    """One state of a table. `id`: of which table of its name, where it has one."""

    version: int
    id: str | None


@dataclass(frozen=True)
class Pins:
    """The tables one run reads, each at the version it had when it was first opened, its files as they were listed, its
    values, and which part of its inputs each slice reads where there are several. `cuts`: the inputs as they were cut
    to the slices."""

    context: RunContext
    session: Any
    tables: dict[TableName, Pin] = field(default_factory=dict)
    portions: list[Portion] = field(default_factory=list)
    cuts: list[Frame] = field(default_factory=list)
    listings: dict[str, Listing] = field(default_factory=dict)
    values: dict[str, ParamValue] = field(default_factory=dict)

    def open(self, table: TableName) -> Frame:
        """The table at its pinned version: reading it again later in this run gives the same rows."""
        target = self.context.target_of(table, self.session)
        located = self.context.project.located(table)
        if located not in self.tables:
            now = target.published(table, ())
            if now.version is None:
                raise InputMissing(f"the input table {table} does not exist", fix=_how_to_make(self.context, table))
            self.tables[located] = Pin(now.version, now.id)
        return target.read(table, at=self.tables[located].version)

    def open_files(self, task: Task, name: str, slices: tuple[Slice, ...]) -> Frame:
        """The files of an input as they were when it was first opened: what comes later is not read by this run."""
        if name not in self.listings:
            self.listings[name] = list_input(self.context.places, task, name, slices)
        return self.context.engine.read_files(self.session, self.listings[name].to_read(self.context.places))

    def value(self, name: str, param: Param) -> Any:
        if name not in self.values:
            self.values[name] = load_param(self.context.places, name, param)
        return self.values[name].value

    def blaming_changed_files(self) -> AbstractContextManager[None]:
        """While files are read: if they changed meanwhile, that is the reason of whatever goes wrong."""
        return blaming_changed_files(self.listings)

    def refuse_changed_files(self) -> None:
        """Raise FileChanged if a file is no longer what was listed. Nothing was published."""
        refuse_changed(self.listings.values())

    def declared_leaves(self, label: str) -> tuple[Leaf, ...]:
        """What a slice was given of files and values, whatever its code makes of it."""
        files = tuple(leaf for listing in self.listings.values() for leaf in listing.leaves(label))
        return (*files, *(value.leaf for value in self.values.values()))

    def not_watched(self, task: Task) -> frozenset[str]:
        """What query plans and listings call the inputs whose changes make no slice stale."""
        names = {name for listing in self.listings.values() for name in listing.not_watched}
        for source in task.tables.values():
            pin = self.tables.get(self.context.project.located(source.table))
            if not source.watch and pin is not None:
                target = self.context.target_of(source.table, self.session)
                found = target.touched(source.table, pin.version, None)
                names |= set() if found is None else {found.name}
        return frozenset(names)

    def version(self, table: TableName) -> int | None:
        """The version a table is read at, if this run reads it."""
        pin = self.tables.get(self.context.project.located(table))
        return None if pin is None else pin.version


def open_input(task: Task, name: str, slices: tuple[Slice, ...], pins: Pins, window: Window | None = None) -> Any:
    """An input pinned, and cut to the slices (from the first to the last) or to the window; of a param its value."""
    source = task.inputs[name]
    match source:
        case Read():
            frame = pins.open(source.table)
        case Files():
            frame = pins.open_files(task, name, slices)
        case Param():
            return pins.value(name, source)
        case _:
            assert_never(source)
    if source.by is None:
        return frame
    match task.scope:
        case Whole():
            return frame
        case Since():
            return frame if window is None else pins.context.engine.since(frame, source.by, window)
        case TimeScope() as scope:
            parts = {slice_.label: (scope.widened(slice_, source.before), slice_.end) for slice_ in slices}
            if len(slices) > 1:
                pins.portions.append(Portion(frame, source.by, scope.zone, parts))
            cut = pins.context.engine.cut(frame, source.by, parts[slices[0].label][0], slices[-1].end, scope.zone)
            pins.cuts.append(cut)
            return cut
        case _:
            assert_never(task.scope)


def _how_to_make(context: RunContext, table: TableName) -> str:
    located = context.project.located
    writers = [task.name for task in context.project.tasks.values() if located(task.target) == located(table)]
    if writers:
        return f"Run {writers[0]} first, which writes it, or everything in order: twice run --all."
    return "Create it, or correct the name in inputs=."
