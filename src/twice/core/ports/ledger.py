"""The ledger: what was tried, what landed, who is running. Every one passes tests/contracts/ledger_suite.py.

A ledger is opened for one project and environment, and sees no record of another's. Every method is one transaction:
it has happened or it has not, whenever the process dies. Every method may be called twice: where the reply to a call
was lost, it is called again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from twice.core.ledger.code_parts import CodeParts
from twice.core.ledger.found import FoundPublish, Shown
from twice.core.ledger.record import (
    AcceptedSlice,
    AttemptRecord,
    AttemptState,
    Busy,
    Claim,
    ClaimRequest,
    Facts,
    InputRecord,
    KnownVersions,
    Pinned,
    Pruned,
    PublishRecord,
    RunRecord,
)
from twice.core.ledger.record_owner import RecordOwner
from twice.core.ports.backfills import BackfillStore
from twice.core.ports.outbox import Outbox
from twice.core.table.token import Kind


class Claims(Protocol):
    """Leases: who may work on a slice now. They only save work; correctness never rests on one."""

    def now(self) -> datetime:
        """The clock that leases are measured by: one for all hosts."""

    def claim(self, request: ClaimRequest, lease: timedelta) -> Claim | Busy:
        """All slices or none. Dying after it leaves an open attempt whose lease runs out. A second call by the same
        attempt finds the claim of the first."""

    def renew(self, claim: Claim, lease: timedelta) -> bool:
        """Hold on for another `lease`. False: another attempt took a slice over, or settled this one as dead."""

    def release(self, attempt: str) -> None:
        """The process behind an attempt is known to be gone: its lease ends now. The attempt stays open until a look
        at the table shows what became of it. A second call changes nothing."""


class Attempts(Protocol):
    """How an attempt moves on, from its claim to its end."""

    def fix(self, claim: Claim, expected: Mapping[str, int], aims: Mapping[str, int] | None = None) -> None:
        """Write the generation of each slice found at look, and the one to publish (one more, unless `aims` has
        another): once, before anything is staged for it."""

    def advance(self, claim: Claim, before: AttemptState, after: AttemptState, facts: Facts = Facts()) -> None:  # noqa: B008
        """Move on and keep what was learnt. Raises LeaseLost if another process has closed this attempt."""

    def publish(self, attempt: str, facts: Facts, *, generations: Mapping[str, int]) -> None:
        """The target shows that these generations landed. Dying before it leaves the ledger behind the table; the next
        look at the slice calls this again. A second call changes nothing."""

    def close_attempt(self, attempt: str, state: AttemptState, facts: Facts = Facts()) -> bool:  # noqa: B008
        """End an attempt that published nothing and release its slices. False, and nothing written, if it has
        ended before or is unknown. Dying before it leaves an open attempt for a later look."""

    def abandon_unlooked(self, attempt: str) -> bool:
        """End an attempt that died before it looked at its table: it has staged nothing, so nothing is left of it.
        False, and nothing written, if it has looked after all, or has ended. It may wake: the ledger then stops it."""

    def discarded(self, attempt: str) -> None:
        """The attempt's staged files are known to be gone. Dying before it costs one more look for them."""

    def record_takeover(self, task: str, attempt: str, holder: str, why: str, kind: Kind = "takeover") -> None:
        """A task was given a table that held another's slices (or that was made elsewhere: `adopt`): kept among its
        attempts, without slices of its own. A second call with the same attempt changes nothing."""

    def record_acceptance(self, task: str, attempt: str, holder: str, why: str, what: Sequence[AcceptedSlice]) -> None:
        """A person accepts what a task keeps. It is no attempt at the slices: how the last one ended stays on record. A
        second call with the same attempt changes nothing."""


class AttemptHistory(Protocol):
    """Attempts as they are on record."""

    def attempt(self, attempt: str, task: str | None = None) -> AttemptRecord | None:
        """With `task`, only if it is that task's, at the table it writes now."""

    def open_attempts(self, task: str | None = None, labels: Sequence[str] | None = None) -> tuple[AttemptRecord, ...]:
        """Attempts that may be at work or may have died, oldest first; with `labels`, those touching one of them."""

    def undiscarded(self, task: str | None = None) -> tuple[AttemptRecord, ...]:
        """Attempts closed without publishing whose staged files may be left, oldest first."""


class GenerationHistory(Protocol):
    """Which generations of a slice attempts aimed at, and at which versions of the table they published."""

    def frozen_aim(self, task: str, label: str, expected: int) -> int | None:
        """What an earlier attempt from this same generation aimed at, if there was one: a retry keeps to it."""

    def furthest_aim(self, task: str, label: str, last: int) -> int | None:
        """The greatest generation, none beyond `last`, that was ever published of a slice, also if it was set back."""

    def why_published(self, task: str, label: str, generation: int) -> tuple[str, ...]:
        """The reasons kept with the attempts that published this generation of a slice, newest first: several where
        the table went back in between."""

    def last_version(self, task: str) -> int | None:
        """The newest version of its table that a task has published; None if none is on record."""

    def published_versions(self, task: str, labels: Sequence[str]) -> KnownVersions:
        """The versions of its table at which a task has published one of these slices, and from where on they are all
        known."""

    def publishers(self, task: str) -> Mapping[str, int]:
        """The fence of the attempt that published each slice of a task, by label."""

    def publishes(self, task: str) -> tuple[PublishRecord, ...]:
        """Every publish of a task that is on record, oldest first. One that moved a mark alone changed no row."""

    def displaced(self, task: str) -> frozenset[str]:
        """The labels of published slices that do not name their inputs, and of whose publish it is not on record that
        no row was displaced by one of another slice."""


class RunRecords(Protocol):
    """What is known of each (task, slice): an index of what the table holds."""

    def run(self, task: str, label: str) -> RunRecord | None:
        """None for a slice that was never claimed, published or adopted."""

    def runs_of(self, task: str, labels: Sequence[str]) -> dict[str, RunRecord]:
        """The same for many slices at once, by label; without those that are unknown."""

    def runs(self, task: str | None = None) -> tuple[RunRecord, ...]:
        """By task and label."""

    def record_found(self, task: str, found: Sequence[FoundPublish]) -> None:
        """Record publishes that the target shows and this ledger has missed, or has forgotten. Never moves a run back.
        When they happened is not known, so `published` stays empty. A second call changes nothing."""

    def forget(self, task: str, label: str) -> None:
        """The table holds less than was published (recreated, or an older copy put in its place): what is recorded
        of its publish is no longer true. Its attempts stay; the next publish counts from what the table holds.
        Dying before it leaves that to the next look."""


class Inputs(Protocol):
    """What published slices were computed from."""

    def inputs(self, task: str, labels: Sequence[str] | None = None) -> Mapping[str, tuple[InputRecord, ...]]:
        """What each published slice of a task (or of these slices) was computed from, by label."""

    def pins(self, task: str, table: str) -> Mapping[str, Pinned]:
        """Up to which version of a table each published slice of a task is known to be right, by label."""

    def accepted(self, task: str, table: str) -> Mapping[str, Pinned]:
        """Up to which version of a table a person has accepted each slice of a task as it is, by label: as it is
        published now, whether or not its publish is on record."""


class CodeRecords(Protocol):
    """What the code of published slices was made of."""

    def code_parts(self, task: str, codes: Sequence[str]) -> Mapping[str, CodeParts]:
        """The parts of these codes of a task, by hash; without those that are not on record."""


class Quarantine(Protocol):
    """Waits between attempts, and slices that wait for a person after the last one."""

    def postpone(self, attempt: str, until: datetime, note: str) -> None:
        """The attempt failed and the run is tried again then; its slices are free meanwhile. A second call changes
        nothing."""

    def quarantine(self, attempt: str, note: str) -> bool:
        """No more attempts at its slices until a person lifts it. False if the attempt never claimed them, or another
        one has begun since. A publish lifts it too. A second call changes nothing."""

    def lift(self, task: str, labels: Sequence[str]) -> None:
        """A person decided: these slices may be tried again. A second call changes nothing."""

    def quarantined(self, task: str, labels: Sequence[str] | None = None) -> Mapping[str, datetime]:
        """The task's slices that wait for a person, or those of them, and since when."""


class UnassignedRecords(Protocol):
    """Records from before the ledger knew environments: a table shows which of them are its own."""

    def waiting(self, names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Of these tasks, each with the names it ever had: those that may have old records and whose table was not
        asked yet which are its own."""

    def any(self, names: Sequence[str]) -> bool:
        """Whether there is an old attempt or run of a task that had these names."""

    def unsent(self, names: Sequence[str]) -> tuple[tuple[str, str, int], ...]:
        """Effects that are still to be sent: by which attempt, of which slice and generation."""

    def take(self, task: str, names: Sequence[str], shown: Shown, *, all_slices: bool) -> int:
        """Give the task what its table shows to be its own; how many attempts. `all_slices`: the table was asked for
        every slice, and is not asked again. Dying here has moved everything or nothing."""

    def take_rest(self, task: str, names: Sequence[str]) -> None:
        """A person decides that all of it is this environment's. What was not sent is of unknown state."""


class RunLedger(
    Claims,
    Attempts,
    AttemptHistory,
    GenerationHistory,
    RunRecords,
    Inputs,
    CodeRecords,
    Quarantine,
    Protocol,
):
    """All that the runtime asks of a ledger."""

    @property
    def owner(self) -> RecordOwner: ...

    @property
    def outbox(self) -> Outbox: ...

    @property
    def backfills(self) -> BackfillStore: ...

    @property
    def unassigned(self) -> UnassignedRecords: ...

    def left_open(self) -> Sequence[tuple[str, str, RunLedger]]:
        """Tasks that wrote another table before and have attempts there that are open, or that may have left files:
        each with that table, and this ledger as it was for it."""

    def gather(self, task: str) -> None:
        """The table was seen to be the task's: records that are kept under a later name of it become those of its first
        name, by which its tokens go. A second call changes nothing. Dying here has moved everything or nothing."""

    def prune(self, before: datetime) -> Pruned:
        """Delete what ended before then and no later run depends on, in many small transactions. A second call
        finds nothing. Dying in between leaves the rest to the next call."""

    def close(self) -> None: ...
