"""The seams to the world. Every target passes tests/contracts/target_suite.py, every engine its own tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from twice.core.audit import Measure
from twice.core.effect import Effect, Message, PublishedSlice
from twice.core.outbox import Answer
from twice.core.owner import Ownership
from twice.core.since import CursorValue, Window
from twice.core.slice import Slice, SliceValue
from twice.core.task import TableName
from twice.core.time_scope import SliceColumn
from twice.core.token import Note
from twice.core.write import Changes, Layout, Plan

Frame = Any
"""A Spark DataFrame, or `targets.memory.rows.Rows` where there is no JVM."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    """In Spark's simple form, odd names quoted: `decimal(12,2)`, `array<string>`, `struct<`user-agent`:string>`."""


@dataclass(frozen=True)
class Shape:
    """A result's or a table's columns, and the column a table is partitioned by (None: not at all)."""

    columns: tuple[Column, ...]
    partitioned_by: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A table as the commit that publishes will leave it. `exists`: whether it is there already. Nothing was written
    for it; `handle` is the target's own."""

    shape: Shape
    exists: bool
    handle: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Published:
    """What a table holds now: its version, the generation of each token asked for (0: never published) and, where a
    look asked for any, whose tokens there are. `id`: which table it is; one that is made again under its name has
    another, and counts its versions anew. None without a table, or where it has no id."""

    version: int | None
    generations: Mapping[str, int]
    owners: Ownership = field(default_factory=Ownership)
    id: str | None = None


@dataclass(frozen=True)
class Held:
    """One token of a table, and the commit that wrote it: None where the log forgot that one."""

    generation: int
    version: int | None
    note: Note | None


@dataclass(frozen=True)
class Staged:
    """Rows that are written and invisible. `handle` is the target's own; it dies with the process.

    `deduplicated`: so many more rows were given, and lost to another row of their key. `ties`: of so many keys the row
    that won was only equally new, and other than one that lost.
    """

    table: TableName
    plan: Plan
    attempt: str
    rows: int
    rows_by_slice: Mapping[str, int]
    files: tuple[str, ...] = ()
    deduplicated: int = 0
    ties: int = 0
    handle: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Landed:
    """Data and tokens are in the table, read back. `changes` is told by keyed writes. `changed`: the labels of the
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
    forgotten, so that nobody can say who made them."""

    version: int
    operation: str
    forgotten: bool = False


@dataclass(frozen=True)
class Span:
    """Rows that a commit may have added, changed or taken away: those whose value in the column asked for lies in
    `[low, high]`. None: any row."""

    version: int
    low: SliceValue | None = None
    high: SliceValue | None = None


@dataclass(frozen=True)
class Touched:
    """What happened to a table since a version. `name` is what a plan's leaves call the table. `spans` is None where
    the log does not reach back so far. `id` as in Published: the spans say nothing to who read a table of another."""

    name: str
    version: int
    spans: tuple[Span, ...] | None
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

    def prepare(self, table: TableName, shape: Shape, layout: Layout, evolve: bool) -> Prepared:
        """How the table must be for this result: as it is, with new columns (`evolve`), or made. Refuses a layout or
        schema that does not fit, and a place that holds something else. Writes nothing: a table is made, and a column
        added, by the commit that publishes rows into it, so that a run that fails before binds nobody."""

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        """The recorded generations and the owners, fresh from the table. A missing table holds nothing."""

    def tokens(self, table: TableName, prefix: str) -> Mapping[str, Held]:
        """Every token whose name begins so, for a ledger that must be made anew. A missing table holds none."""

    def provenance(self, table: TableName, token_name: str, generation: int) -> Note | None:
        """The note of the commit that gave this token this generation, with that commit's version; None once the log
        forgot it."""

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        """Commits after a version by which others changed rows of these slices, oldest first. Where the log does not
        reach back so far, it begins with what is forgotten."""

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:
        """Which rows the commits after a version may have touched, by their values in a column; read from the log
        alone. In doubt any row. Commits that only rearrange rows are left out. None if there is no table."""

    def one_slice_only(self, table: TableName) -> str | None:
        """Why this table takes one slice per commit; None if it takes several, or does not exist yet."""

    def stage(
        self,
        table: TableName,
        frame: Frame | None,
        plan: Plan,
        attempt: str,
        *,
        read_at: int | None = None,
        into: Prepared | None = None,
    ) -> Staged:
        """Write the rows where no reader sees them. Refuses rows outside the plan's slices, and NULL in a key.
        Without a frame there are no rows: an append then moves its tokens alone.
        `into`: the table as it was prepared; without it, the table that is there, as it is.
        `read_at`: the version of this very table that the rows were computed from, if they were: the commit then
        refuses rows that are out of date.
        Dying here leaves invisible files that `discard` finds by the attempt's name."""

    def duplicates(self, staged: Staged, columns: Sequence[str]) -> int | None:
        """How many staged rows share their values in these columns with an earlier one (NULL equals NULL), counted
        where they lie; None where the engine must read them for that."""

    def commit(self, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
        """Compare-and-swap: if **every** token is at its expected generation, publish the rows and move every
        token to the note's generation, in one commit, then read back. Else Lost. A table that must be made for it, or
        get new columns, is and does in the same commit; if somebody else made or changed it otherwise meanwhile, it is
        a StageMismatch. A keyed write that changes no row writes no file and moves its token all the same. Dying here
        has published all or nothing."""

    def discard(self, table: TableName, attempt: str, slices: Sequence[Slice]) -> int:
        """Delete what an attempt that did not land has staged; how many files. Never touches a file that any
        version of the table refers to. A second call finds nothing."""

    def forget(self, table: TableName, before: datetime) -> int:
        """Let go of whose the commits before then were, where no token has the generation they gave any more; how many.
        Tokens stay. 0 where the table's own log looks after that. Dying here has forgotten all of them or none."""

    def read(self, table: TableName, at: int | Staged | None = None) -> Frame:
        """The table now, at a version, or an attempt's staged rows."""


@dataclass(frozen=True)
class Leaf:
    """One thing a plan reads. `identity` is None where its state cannot be versioned."""

    kind: str
    name: str
    identity: str | None
    version: int | None = None


PLAN, FUNCTION, ALLOWED = "plan", "function", "allowed"
"""Kinds of leaves that are no table: the expressions and constants of a plan, a function it calls, and something the
plan guard lets pass although it may differ."""


@dataclass(frozen=True)
class Portion:
    """An input of several slices, before it was cut: `parts` says which `[start, end)` of the column each slice reads,
    by label."""

    frame: Frame
    column: str
    zone: str | None
    parts: Mapping[str, tuple[datetime, datetime]]


ALL_ROWS = "all rows"


@dataclass(frozen=True)
class Suspicion:
    """Something in the plan that may differ on the next run, and the result columns it reaches (`ALL_ROWS`, if it
    decides which rows there are)."""

    name: str
    columns: tuple[str, ...]
    why: str
    fix: str


@dataclass(frozen=True)
class Measured:
    """What was counted while the rows were written."""

    rows: int
    fingerprint: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Observed:
    """A frame that counts its rows as they pass. Call `read` only after the write succeeded."""

    frame: Frame
    read: Callable[[], Mapping[str, Measured]]
    """By slice label."""


class Engine(Protocol):
    """What the runtime asks of the thing that computes: Spark, or plain rows in tests."""

    def fresh(self) -> Any:
        """A session for one run: UTC, ANSI, isolated from every other run."""

    def cut(self, frame: Frame, column: str, start: datetime, end: datetime, zone: str | None) -> Frame:
        """The rows of `[start, end)` on a DATE or TIMESTAMP column."""

    def newest(self, frame: Frame, column: str) -> tuple[CursorValue | None, int]:
        """The greatest value of a cursor column, and how many rows have none."""

    def since(self, frame: Frame, column: str, window: Window) -> Frame:
        """The rows of a window on a cursor column; NULL is never inside."""

    def shape(self, frame: Frame, slice_column: SliceColumn | None) -> tuple[Frame, Shape]:
        """The result with its slice column, if it has one, added and checked against the scope column."""

    def suspicions(self, frame: Frame) -> tuple[Suspicion, ...]:
        """What in the analysed plan is not the same on every run."""

    def leaves(self, frame: Frame, before: Sequence[Leaf] = ()) -> tuple[Leaf, ...]:
        """Every leaf of the plan, subqueries included. One whose files only rearrange those of a leaf of `before`
        is given as that leaf."""

    def leaves_of_each(
        self, frame: Frame, slices: Sequence[Slice], portions: Sequence[Portion]
    ) -> Mapping[str, tuple[Leaf, ...]]:
        """What each of several slices reads, by label: of a portion only the files of its own part, so that its inputs
        are the same whether it was computed alone or with others."""

    def outside(self, frame: Frame, cuts: Sequence[Frame], function: Callable[..., Any]) -> tuple[Leaf, ...]:
        """What the frame's rows hang on beside its tables: the expressions and constants of its plan, and the functions
        in it. `cuts` are the inputs as they were cut to the slices: where they were cut does not count. `function` is
        the task's: code of the package it is in counts like a project's, installed or not."""

    def observe(self, frame: Frame, slices: Sequence[Slice], measures: Sequence[Measure]) -> Observed:
        """Count, fingerprint and measure the rows of each slice while they are written."""

    def estimate(self, frame: Frame) -> int:
        """About how many rows a frame has, without a job over the data."""

    def totals(self, frame: Frame, slices: Sequence[Slice]) -> Mapping[str, Mapping[str, str | None]]:
        """By slice label: the sum of each numeric column, as text (None: no value). A read, by a job of its own."""

    def duplicates(self, frame: Frame, columns: Sequence[str]) -> int:
        """How many rows share their values in these columns with an earlier row. NULL equals NULL."""

    def sample(self, frame: Frame, slice_: Slice, count: int) -> tuple[Mapping[str, Any], ...]:
        """The first rows of a slice in the order of their columns, by column name."""


class NotLeaving(Exception):
    """This try may not go on: it was silent for too long, and others have judged it. Nothing has left."""


@dataclass(frozen=True)
class OutgoingMessage:
    """What one try sends. `function` only where the effect is a call."""

    key: str
    keyed: bool
    message: Message
    function: Callable[[PublishedSlice, str], Any] | None = None


class Sender(Protocol):
    """One kind of receiver. A try is one request: no retries of its own, no redirects, and an end in time."""

    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:
        """The very bytes that every try sends. Calls the user's functions; changes nothing."""

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        """Send it once and tell apart: accepted, surely refused, in doubt. `leaving` is called when the next thing
        is the first byte (or what the receiver acts on); if it raises NotLeaving, nothing is sent. No secret is in
        the answer. Dying in here leaves doubt."""


class Clock(Protocol):
    def now(self) -> datetime:
        """UTC. For records and leases only: no data is ever cut by it."""

    def monotonic(self) -> float: ...
