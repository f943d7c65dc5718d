"""What a run is and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from twice.core.audit import AuditResult
from twice.core.closed import assert_never
from twice.core.outbox import EffectState
from twice.core.token import Kind
from twice.core.write import Changes


@dataclass(frozen=True)
class RunRequest:
    """How slices are to be run. `wait`: for how long to wait for another attempt on them; None: not at all. `silent`:
    its effects are not prepared. `planned`: the generations at which somebody decided on this run; a slice that moved
    on since was made since."""

    kind: Kind = "run"
    wait: timedelta | None = None
    silent: bool = False
    planned: Mapping[str, int] | None = None


PLAIN_RUN = RunRequest()


class Outcome(str, Enum):
    """How a run ended well. Failures are errors, see errors.py."""

    PUBLISHED = "published"
    ALREADY = "already published"
    IDENTICAL = "identical"  # restated: the new rows are the old rows
    CHANGED = "changed"  # restated: they are not
    NOTHING_NEW = "nothing new"  # an incremental task: its source has not moved beyond the mark
    UNKNOWN = "published (provenance unknown)"


class AttemptState(str, Enum):
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
        match self:
            case AttemptState.CLAIMED | AttemptState.STAGED | AttemptState.AUDITED | AttemptState.PUBLISHING:
                return True
            case AttemptState.PUBLISHED | AttemptState.UNCHANGED | AttemptState.SUPERSEDED:
                return False
            case AttemptState.FAILED | AttemptState.REJECTED | AttemptState.ABANDONED:
                return False
            case _:
                assert_never(self)

    @property
    def bad(self) -> bool:
        """Did it end without the slice being made right, and without another attempt having done so?"""
        match self:
            case AttemptState.FAILED | AttemptState.REJECTED | AttemptState.ABANDONED:
                return True
            case AttemptState.PUBLISHED | AttemptState.UNCHANGED | AttemptState.SUPERSEDED:
                return False
            case AttemptState.CLAIMED | AttemptState.STAGED | AttemptState.AUDITED | AttemptState.PUBLISHING:
                return False
            case _:
                assert_never(self)


@dataclass(frozen=True)
class SliceResult:
    """`changed`: whether a restatement has put other rows in the place of those that were there; None where it is not
    known, and for every other run."""

    label: str
    generation: int
    rows: int | None = None
    fingerprint: str | None = None
    changed: bool | None = None


@dataclass(frozen=True)
class EffectEnd:
    """The state of an effect of a slice after a run. `already`: it was prepared by an earlier publish."""

    label: str
    name: str
    id: int
    state: EffectState
    why: str | None
    already: bool


@dataclass(frozen=True)
class RunResult:
    """One run's end. `why` says why it was computed, or why not; `notes` what a person should know.
    `mark` is where an incremental task is now; `more`: its source goes further, another run will take it."""

    task: str
    outcome: Outcome
    slices: tuple[SliceResult, ...]
    attempt: str
    why: str
    version: int | None = None
    audits: tuple[AuditResult, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    changes: Changes | None = None
    mark: str | None = None
    more: bool = False
    effects: tuple[EffectEnd, ...] = ()


def run_label(task: str, labels: Sequence[str]) -> str:
    """`revenue[2026-06-09]`, or `revenue[2026-06-01..2026-06-09]` for several slices: how messages name a run."""
    return f"{task}[{labels[0]}]" if len(labels) == 1 else f"{task}[{labels[0]}..{labels[-1]}]"
