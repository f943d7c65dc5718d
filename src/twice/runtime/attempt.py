"""One process trying one run: what it carries from claim to finish, and how its failures are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from twice.core.audit import AuditResult
from twice.core.ports import Measured, Staged, Target
from twice.core.record import Claim, Facts
from twice.core.run import AttemptState, Outcome, RunResult, SliceResult
from twice.core.since import Window
from twice.core.task import Task
from twice.core.token import Kind
from twice.core.write import Plan
from twice.errors import OutcomeUnknown, RunError, Superseded, TwiceError
from twice.runtime.compute import Computed
from twice.runtime.settle import Found
from twice.runtime.workshop import Trace, Workshop

_TRACE = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Attempt:
    """What stays the same from claim to finish; `notes` collects what a person should know; `silent`: no effect
    speaks of it."""

    shop: Workshop
    task: Task
    plan: Plan
    kind: Kind
    claim: Claim
    trace: Trace
    session: Any
    target: Target
    notes: list[str] = field(default_factory=list)
    silent: bool = False

    @property
    def id(self) -> str:
        return self.claim.attempt

    @property
    def where(self) -> str:
        return place(self.task.name, [slice_.label for slice_ in self.plan.slices])

    @property
    def apps(self) -> Mapping[str, str]:
        """Each slice's label and its token's name."""
        return {slice_.label: app for slice_, app in zip(self.plan.slices, self.plan.app_ids, strict=True)}

    def discard(self) -> None:
        """Delete what this attempt has staged. Its own it may always delete, unless it may have landed."""
        self.target.discard(self.task.target, self.id, self.plan.reach)
        self.shop.ledger.discarded(self.id)


@dataclass(frozen=True)
class Ready:
    """Staged, measured and (once audited) ready to be published."""

    staged: Staged
    measured: Mapping[str, Measured]
    computed: Computed
    found: Found
    why: str
    audits: tuple[AuditResult, ...] = ()
    window: Window | None = None


def place(task: str, labels: list[str] | tuple[str, ...]) -> str:
    return f"{task}[{labels[0]}]" if len(labels) == 1 else f"{task}[{labels[0]}..{labels[-1]}]"


def ended(
    attempt: Attempt,
    outcome: Outcome,
    slices: tuple[SliceResult, ...],
    why: str,
    version: int | None,
    audits: tuple[AuditResult, ...] = (),
) -> RunResult:
    return RunResult(
        attempt.task.name,
        outcome,
        slices,
        attempt.id,
        why,
        version,
        audits,
        tuple(attempt.notes),
        dict(attempt.trace.seconds),
    )


@contextmanager
def discarding(attempt: Attempt) -> Iterator[None]:
    """An attempt that fails deletes its own staged rows; not if they may have landed."""
    try:
        yield
    except OutcomeUnknown:
        raise
    except Exception:
        attempt.discard()
        raise


@contextmanager
def reported(shop: Workshop, claim: Claim, trace: Trace) -> Iterator[None]:
    """Every failure is told where it happened and closes its attempt, unless its outcome is unknown."""
    where = place(claim.task, claim.labels)
    try:
        yield
    except OutcomeUnknown as error:
        error.at(where)
        raise  # the attempt stays open: only the target can say how it ended
    except (Exception, KeyboardInterrupt) as error:
        told = _told(error, where)
        state = AttemptState.SUPERSEDED if isinstance(told, Superseded) else AttemptState.FAILED
        facts = Facts(error=told.details(), seconds=trace.seconds)
        try:
            shop.ledger.close_attempt(claim.attempt, state, facts)
        except TwiceError as unrecorded:
            # The first error is what the person must hear; the open attempt is settled by the next look.
            told.fix += f" (The ledger could not record this failure: {unrecorded.what}.)"
        if told is error or isinstance(error, KeyboardInterrupt):
            raise
        raise told from error


def _told(error: BaseException, where: str) -> TwiceError:
    if isinstance(error, TwiceError):
        return error.at(where)
    if isinstance(error, KeyboardInterrupt):
        return RunError("interrupted", where=where, fix="Run it again: it will look first.")
    return RunError(
        f"{type(error).__name__}: {_telling_line(error)}",
        where=where,
        fix="Run it again with --debug to see the whole trace.",
    )


def _telling_line(error: BaseException) -> str:
    """The first line; of an error from one of Spark's Python workers, the line below its trace."""
    lines = str(error).strip().splitlines() or ["(no message)"]
    if _TRACE not in lines:
        return lines[0]
    below = [line for line in lines[lines.index(_TRACE) + 1 :] if line.strip() and not line[0].isspace()]
    return below[0] if below else lines[0]
