"""Targets: the table systems. Every one passes tests/contracts/target_suite.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from twice.core.ports.frame import Frame, Shape
from twice.core.slice import Slice, SliceValue
from twice.core.table.owner import Ownership
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import Changes, Layout, WritePlan


@dataclass(frozen=True)
class PreparedTable:
    """A table as the commit that publishes will leave it. `exists`: whether it is there already. Nothing was written
    for it; `handle` is the target's own."""

    shape: Shape
    exists: bool
    handle: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Published:
    """What a table holds now: its version, the generation of each token asked for (0: never published) and, where a
    look asked for any, their owners. `id`: which table it is; one that is made again under its name has
    another, and counts its versions from the start again. None without a table, or where it has no id."""

    version: int | None
    generations: Mapping[str, int]
    owners: Ownership = field(default_factory=Ownership)
    id: str | None = None


@dataclass(frozen=True)
class Held:
    """One token of a table, and the commit that wrote it: None where the log forgot that one."""

    generation: int
    version: int | None
    note: CommitNote | None


@dataclass(frozen=True)
class Staged:
    """Rows that are written and invisible. `handle` is the target's own; it dies with the process.

    `deduplicated`: so many more rows were given, and lost to another row of their key. `ties`: of so many keys the row
    that won was only equally new, and other than one that lost.
    """

    table: TableName
    plan: WritePlan
    attempt: str
    rows: int
    rows_by_slice: Mapping[str, int]
    files: tuple[str, ...] = ()
    deduplicated: int = 0
    ties: int = 0
    handle: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Landed:
    """Data and tokens are in the table, read back. `changes`: of keyed writes. `changed`: the labels of the
    slices that a restatement replaced with other rows than were there, where the target has compared them."""

    version: int
    changes: Changes | None = None
    changed: frozenset[str] | None = None


@dataclass(frozen=True)
class Lost:
    """Another commit moved a token first. Nothing of ours landed."""

    published: Published


@dataclass(frozen=True)
class Foreign:
    """A commit that changed rows of a slice without twice; or (`forgotten`) the newest of those that the log has
    forgotten, so that it is not known who made them."""

    version: int
    operation: str
    forgotten: bool = False


@dataclass(frozen=True)
class ChangedRange:
    """Rows that a commit may have added, changed or taken away: those whose value in the column asked for is in
    `[low, high]`. None: any row."""

    version: int
    low: SliceValue | None = None
    high: SliceValue | None = None


@dataclass(frozen=True)
class Touched:
    """What happened to a table since a version. `name` is what a plan's leaves call the table. `spans` is None where
    the log does not reach back so far. `id` as in Published: the spans are not about a table of another."""

    name: str
    version: int
    spans: tuple[ChangedRange, ...] | None
    id: str | None = None

    def is_another(self, version: int, id_: str | None) -> bool:
        """Whether the table that was read at this version is gone, and this is another one (or an older copy) in its
        place. By the version alone where the id is not known."""
        return version > self.version or id_ not in (None, self.id)


class Target(Protocol):
    """A table system that carries out the write verbs atomically.

    The truth about what landed is here, never in the ledger. No method may leave a table half-written,
    wherever it dies.
    """

    def prepare(self, table: TableName, shape: Shape, layout: Layout, evolve: bool) -> PreparedTable:
        """How the table must be for this result: as it is, with new columns (`evolve`), or made. Refuses a layout or
        schema that does not fit, and a location that holds something else. Writes nothing: a table is made, and a
        column added, by the commit that publishes rows into it, so that a run that fails before leaves nothing."""

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        """The recorded generations and the owners, fresh from the table. A missing table holds nothing."""

    def tokens(self, table: TableName, prefix: str) -> Mapping[str, Held]:
        """Every token whose name begins so, for a ledger that must be rebuilt. A missing table holds none."""

    def provenance(
        self, table: TableName, token_name: str, generation: int, at: int | None = None
    ) -> CommitNote | None:
        """The note of the commit that gave this token this generation, with that commit's version; None once the log
        forgot it. `at`: the version that somebody remembers for it, looked at first where a log must be searched."""

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        """Commits after a version by which others changed rows of these slices, oldest first. Where the log does not
        reach back so far, it begins with what is forgotten."""

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:
        """Which rows the commits after a version may have touched, by their values in a column; read from the log
        alone. In doubt any row. Commits that only rearrange rows are left out. None if there is no table."""

    def one_slice_only(self, table: TableName) -> str | None:
        """Why this table takes one slice per commit; None if it takes several, or does not exist yet."""

    def stage(
        self, table: TableName, frame: Frame | None, plan: WritePlan, attempt: str, *, into: PreparedTable | None = None
    ) -> Staged:
        """Write the rows where no reader sees them. Refuses rows outside the plan's slices, and NULL in a key.
        Without a frame there are no rows: an append then moves its tokens alone.
        `into`: the table as it was prepared; without it, the table that is there, as it is.
        Dying here leaves invisible files that `discard` finds by the attempt's name."""

    def duplicates(self, staged: Staged, columns: Sequence[str]) -> int | None:
        """How many staged rows share their values in these columns with an earlier one (NULL equals NULL), counted
        where they are; None where the engine must read them for that."""

    def commit(self, staged: Staged, expected: Mapping[str, int], note: CommitNote) -> Landed | Lost:
        """Compare-and-swap: if **every** token, those of the slices and those that the plan watches, is at its expected
        generation, publish the rows and move every slice's token to the note's generation, in one commit, then read
        back. Else Lost. Commits that only watch a token neither wait for each other nor lose to each other. A table
        that must be made for it, or get new columns, is and does in the same commit; if somebody else made or changed
        it otherwise meanwhile, it is TableChanged. A keyed write that changes no row writes no file and moves its
        token all the same. A table that is exchanged as a whole (`ReplaceTable`) keeps its id, its history and its
        readers: they see all of the old rows and columns, or all of the new ones. Tokens beside those of the slices
        (`note.beside`) move with them; where a system takes one token per commit, in one of their own before it (for a
        new table, after it). After Lost, the same stage may be committed again with other expectations. Dying here has
        published all or nothing."""

    def discard(self, table: TableName, attempt: str, slices: Sequence[Slice]) -> int:
        """Delete what an attempt that did not land has staged; how many files. Never touches a file that any
        version of the table refers to. A second call finds nothing."""

    def forget(self, table: TableName, before: datetime) -> int:
        """Forget who made the commits before then, where no token has the generation they gave any more; how many.
        Tokens stay. 0 where the table's own log looks after that. Dying here has forgotten all of them or none."""

    def check_exchange(self, table: TableName) -> None:
        """Raise DeclarationError where this table cannot be exchanged for a side table (`ReplaceTable`): what it has
        would not be on the other, or its commits are not ours to make. Asked before a side table is filled. Reads
        only."""

    def drop_side(self, table: TableName, token_name: str) -> None:
        """Drop a table that was filled beside another, with all that was staged for it. Raises DeclarationError for one
        that does not hold this token: it is somebody else's. Refuses every other name. A second call finds nothing.
        Dying here leaves the table whole, or gone for every reader; the next call removes the rest."""

    def read(self, table: TableName, at: int | Staged | None = None) -> Frame:
        """The table now, at a version, or an attempt's staged rows."""
