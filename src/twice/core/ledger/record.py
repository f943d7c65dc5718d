"""What the ledger remembers: claims, attempts, runs. The target is the truth; these are its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from twice.core.audit import AuditResult
from twice.core.closed import assert_never
from twice.core.ledger.code_parts import CodeParts
from twice.core.ledger.outbox import PreparedEffect
from twice.core.table.token import Intention, Kind
from twice.core.write import Changes


class AttemptEnd(Enum):
    RIGHT = "the slice is right"
    OVERTAKEN = "another attempt made the slice right first"
    BAD = "the slice was not made right"


class AttemptState(str, Enum):
    """How far an attempt came, or how it ended."""

    CLAIMED = "claimed"
    STAGED = "staged"
    AUDITED = "audited"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    UNCHANGED = "unchanged"  # looked, and nothing was to do
    FAILED = "failed"
    REJECTED = "rejected"  # by an audit
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"  # died or gave up before publishing; settled by a later look

    @property
    def open(self) -> bool:
        """May the process behind it still be at work, or have died without reporting back?"""
        return self.end is None

    @property
    def bad(self) -> bool:
        """Did it end without the slice being made right, and without another attempt having done so?"""
        return self.end is AttemptEnd.BAD

    @property
    def may_leave_files(self) -> bool:
        """Did it end without publishing what it may have staged?"""
        return self.end in (AttemptEnd.BAD, AttemptEnd.OVERTAKEN)

    @property
    def end(self) -> AttemptEnd | None:
        """None while it is open."""
        match self:
            case AttemptState.CLAIMED | AttemptState.STAGED | AttemptState.AUDITED | AttemptState.PUBLISHING:
                return None
            case AttemptState.PUBLISHED | AttemptState.UNCHANGED:
                return AttemptEnd.RIGHT
            case AttemptState.SUPERSEDED:
                return AttemptEnd.OVERTAKEN
            case AttemptState.FAILED | AttemptState.REJECTED | AttemptState.ABANDONED:
                return AttemptEnd.BAD
            case _:
                assert_never(self)


@dataclass(frozen=True)
class ClaimRequest:
    """An attempt that wants all of these slices of a task, or none."""

    task: str
    labels: Sequence[str]
    attempt: str
    kind: Kind
    holder: str

    def __post_init__(self) -> None:
        if not (self.task and self.attempt and self.labels and all(self.labels)):
            raise ValueError(f"a claim needs a task, an attempt and the labels of its slices, not {self}")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError(f"a claim names each slice once, not {self.labels}")


@dataclass(frozen=True)
class Claim:
    """A lease on every slice of one attempt. The fence only ever grows, per slice."""

    attempt: str
    task: str
    labels: tuple[str, ...]
    fence: int


@dataclass(frozen=True)
class Busy:
    """Another attempt holds one of the slices."""

    label: str
    attempt: str
    holder: str
    until: datetime


TABLE = "table"
"""The kind of an input record that holds at which version a table was pinned; its identity is the table's id, None in
records of earlier versions. The others are leaves of the plan."""

REWRITTEN = "rewritten"
"""The kind of an input record that is no leaf: of the table `name` the slice `identity` of the task above was changed
after an incremental task had read it, and nobody has acted on it since. None: there is no record of what was read."""

OVERWROTE = "overwrote"
"""The kind of an input record that is no leaf: a slice's first publish replaced rows that the table `name` held there,
of another task or of slices that were cut differently."""

ACCEPTED = "accepted"
"""The kind of an input record that is no leaf: up to this version of the table `name` a person accepted a slice."""

RECIPE = "recipe"
"""The kind of an input record that is no leaf: the hash of what the task's function made its query plan of, beside its
inputs. While that is the same, so is the plan; there is none where nothing shows it."""

NO_LEAVES = frozenset({TABLE, REWRITTEN, OVERWROTE, ACCEPTED, RECIPE})


@dataclass(frozen=True)
class InputRecord:
    """One leaf that one slice's result was computed from, or one table it was pinned to."""

    label: str
    kind: str
    name: str
    identity: str | None
    version: int | None


@dataclass(frozen=True)
class Pinned:
    """Up to this version of a table a published slice is known to be right: by the attempt with this fence."""

    version: int
    fence: int
    id: str | None = None


@dataclass(frozen=True)
class KnownVersions:
    """The versions of its table at which a task has published some slices, as far as the ledger knows. From the version
    `complete_from` on these are all; before it there may have been others (attempts that were pruned, publishes that
    another ledger knew). None: there may have been others at any version."""

    versions: frozenset[int] = frozenset()
    complete_from: int | None = 0

    def may_include(self, version: int) -> bool:
        """Whether one of the slices was published at this version, for all that is known."""
        return version in self.versions or self.complete_from is None or version < self.complete_from


@dataclass(frozen=True)
class PublishRecord:
    """A publish of a slice by the attempt with this fence, from `expected` to `generation`. `overwrote`: OVERWROTE."""

    label: str
    fence: int
    version: int | None
    expected: int | None
    generation: int
    fingerprint: str | None
    changes: Changes | None
    overwrote: bool = False


@dataclass(frozen=True)
class AcceptedSlice:
    """A person's decision that a published generation of a slice is right as it is, up to these versions of the tables
    that it reads, by name."""

    label: str
    generation: int
    versions: Mapping[str, int]


@dataclass(frozen=True)
class SliceRecord:
    """One slice of one attempt. `expected` is the generation found at look, `aim` the one it would publish."""

    label: str
    expected: int | None = None
    intention: Intention | None = None
    rows: int | None = None
    fingerprint: str | None = None
    aim: int | None = None


def aim_of(expected: int, aim: int | None) -> int:
    """The generation that a slice of an attempt would publish: the next one, unless it is given (an incremental task's
    mark)."""
    return expected + 1 if aim is None else aim


@dataclass(frozen=True)
class Facts:
    """What an attempt has learnt since its last transition; None or empty means: nothing new. `code_parts`: what the
    code of its slices is made of, by its hash."""

    slices: tuple[SliceRecord, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    audits: tuple[AuditResult, ...] = ()
    why: str | None = None
    version: int | None = None
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: Mapping[str, str] | None = None
    changes: Changes | None = None
    effects: tuple[PreparedEffect, ...] = ()
    code_parts: Mapping[str, CodeParts] = field(default_factory=dict)


@dataclass(frozen=True)
class AttemptRecord:
    """One process trying one run. `discarded`: its staged files are known to be gone. `retry_at`: it failed for a
    passing reason, and the run is tried again then."""

    id: str
    task: str
    kind: Kind
    state: AttemptState
    fence: int
    holder: str
    started: datetime
    finished: datetime | None
    lease_until: datetime | None
    slices: tuple[SliceRecord, ...]
    inputs: tuple[InputRecord, ...]
    audits: tuple[AuditResult, ...]
    why: str | None
    version: int | None
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    error: Mapping[str, str] | None
    discarded: bool
    changes: Changes | None = None
    retry_at: datetime | None = None

    @property
    def never_looked(self) -> bool:
        """It knew no generation, and staged nothing."""
        return all(slice_.expected is None for slice_ in self.slices)


@dataclass(frozen=True)
class RunRecord:
    """What is known of one (task, slice): the last publish, if any, the last attempt's state, since when it waits for
    a person (`quarantined`), or when it is tried again."""

    task: str
    label: str
    generation: int
    attempt: str | None
    intention: Intention | None
    rows: int | None
    fingerprint: str | None
    version: int | None
    published: datetime | None
    last_attempt: str | None
    last_state: AttemptState | None
    quarantined: datetime | None = None
    retry_at: datetime | None = None

    @property
    def failed(self) -> bool:
        """Did the last attempt end badly, or must a person look?"""
        return self.quarantined is not None or (self.last_state is not None and self.last_state.bad)


@dataclass(frozen=True)
class Overview:
    """The last of all runs by task and label, how many there are, and how many ended badly when they were last tried.
    `last_failed` is the last of those."""

    runs: tuple[RunRecord, ...]
    total: int
    failed: int
    last_failed: RunRecord | None


@dataclass(frozen=True)
class Pruned:
    """How many rows went: attempts (with their slices, inputs and audits), effects of what cannot land, texts of
    effects that were sent, backfills, proofs, what looks found of slices that were tried since."""

    attempts: int = 0
    effects: int = 0
    texts: int = 0
    backfills: int = 0
    proofs: int = 0
    looks: int = 0
