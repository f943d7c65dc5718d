"""The environments of a ledger: what each has in it, and what keeps one from being dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from twice.core.ledger.outbox import EffectRecord, EffectState, Needs

UNRESOLVED = tuple(
    state for state in EffectState if state is EffectState.UNKNOWN or state.needs in (Needs.A_SENDER, Needs.A_PERSON)
)
"""Effects that are still to be sent, or of which a person has not said what became of them. So are those that an
attempt has prepared which was publishing when it died."""


@dataclass(frozen=True)
class EnvironmentRecords:
    """How much a ledger holds of one environment of a project. `open`: attempts that have not reported back. `newest`:
    when the last of it was written; None if there is nothing but the names of tasks."""

    project: str
    environment: str
    tasks: int = 0
    slices: int = 0
    attempts: int = 0
    open: int = 0
    backfills: int = 0
    proofs: int = 0
    effects: Mapping[EffectState, int] = field(default_factory=dict)
    newest: datetime | None = None


@dataclass(frozen=True)
class AtWork:
    """A slice or a batch whose lease has not run out."""

    where: str
    holder: str
    until: datetime


@dataclass(frozen=True)
class Unfinished:
    """What keeps an environment from being dropped: the leases that are alive, else how many effects are unresolved,
    by state, and the first few of them. `begun`: some of its records are deleted already, by the call that found
    this."""

    at_work: tuple[AtWork, ...] = ()
    effects: Mapping[EffectState, int] = field(default_factory=dict)
    first: tuple[EffectRecord, ...] = ()
    begun: bool = False

    @property
    def any(self) -> bool:
        return bool(self.at_work or self.effects)


@dataclass(frozen=True)
class EnvironmentDrop:
    """A person's decision to drop an environment. Made again with the same `id`, it is the same decision."""

    id: str
    by: str
    reason: str


@dataclass(frozen=True)
class DroppedEnvironment:
    """A drop that is on record: it stays when all else of the environment is gone."""

    project: str
    environment: str
    at: datetime
    by: str
    reason: str
