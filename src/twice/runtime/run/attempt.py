"""One process trying one run: what it carries from claim to finish, and how its failures are reported."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from twice.core.audit import AuditResult
from twice.core.failure.failpoints import Crash
from twice.core.failure.interruption import BrokenOff, Terminated, asked_by, being_handled, exit_code_of, interruption
from twice.core.failure.root_cause import cause_line
from twice.core.ledger.record import AttemptState, Claim, Facts
from twice.core.ports import Measured, Staged, Target
from twice.core.results.run import Outcome, RunRequest, RunResult, SliceResult
from twice.core.results.summary import counted, run_label
from twice.core.since import Window
from twice.core.table.token import Kind
from twice.core.task import Task
from twice.core.write import WritePlan
from twice.errors import SEE_TRACE, Interrupted, OutcomeUnknown, RunError, Superseded, TwiceError
from twice.runtime.context import RunContext, Trace
from twice.runtime.result.compute import Computed
from twice.runtime.run.landing import ROWS, Landing, Wording
from twice.runtime.run.lease import claim_slices
from twice.runtime.staleness.published_since import GenerationsAtStart
from twice.runtime.table.settle import TableState


@dataclass(frozen=True)
class Attempt:
    """What stays the same from claim to finish; `notes` collects what a person should know; `landing`: what is known of
    its commit; `at_start`: the generations at which it was decided on, shared with the attempts before it."""

    context: RunContext
    task: Task
    plan: WritePlan
    request: RunRequest
    claim: Claim
    trace: Trace
    session: Any
    target: Target
    landing: Landing
    at_start: GenerationsAtStart
    notes: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.claim.attempt

    @property
    def kind(self) -> Kind:
        return self.request.kind

    @property
    def where(self) -> str:
        return run_label(self.task.name, [slice_.label for slice_ in self.plan.slices])

    @property
    def token_names(self) -> Mapping[str, str]:
        """Each slice's label and its token's name."""
        return {slice_.label: name for slice_, name in zip(self.plan.slices, self.plan.token_names, strict=True)}

    def learns_rows(self, measured: Mapping[str, Measured]) -> None:
        """For whoever watches."""
        self.context.progress.learns(counted(sum(each.rows for each in measured.values()), "row"))

    def discard(self, complete: bool = True) -> None:
        """Delete what this attempt has staged, which its own process may always do, unless it may have landed. What
        cannot be deleted now is found by the next run, so it never hides how the attempt ended.
        `complete`: no process is writing for it any more."""
        if not self.landing.absent:
            return
        with suppress(Exception):
            self.target.discard(self.task.target, self.id, self.plan.file_slices)
            if complete:
                self.context.ledger.discarded(self.id)


@dataclass(frozen=True)
class StagedRun:
    """Staged, measured and (once audited) ready to be published."""

    staged: Staged
    measured: Mapping[str, Measured]
    computed: Computed
    found: TableState
    why: str
    audits: tuple[AuditResult, ...] = ()
    window: Window | None = None


def ended(
    attempt: Attempt,
    outcome: Outcome,
    slices: tuple[SliceResult, ...],
    why: str,
    version: int | None,
) -> RunResult:
    return RunResult(
        attempt.task.name,
        outcome,
        slices,
        attempt.id,
        why,
        version,
        notes=tuple(attempt.notes),
        seconds=dict(attempt.trace.seconds),
    )


@contextmanager
def discarding(attempt: Attempt) -> Iterator[None]:
    """An attempt that fails deletes its own staged rows; not if they may have landed."""
    before = being_handled()
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Crash):
            # Tasks that were asked to stop may still write a file.
            attempt.discard(complete=interruption(error, before) is None)
        raise


@contextmanager
def releasing_on_interrupt(context: RunContext, attempt: str) -> Iterator[None]:
    """An attempt that is interrupted while it claims releases what it may have got."""
    before = being_handled()
    try:
        yield
    except BaseException as error:
        if interruption(error, before) is not None:
            with suppress(TwiceError):
                context.ledger.close_attempt(attempt, AttemptState.FAILED)
                context.ledger.discarded(attempt)
        raise


def claimed(context: RunContext, task: Task, plan: WritePlan, request: RunRequest) -> Claim:
    """The slices of the plan, claimed by a new attempt."""
    attempt = uuid.uuid4().hex
    with releasing_on_interrupt(context, attempt):
        return claim_slices(context, task, plan, request, attempt)


@contextmanager
def reported(context: RunContext, claim: Claim, trace: Trace, wording: Wording = ROWS) -> Iterator[Landing]:
    """Every failure says where it happened, with a true sentence about the table, and closes its attempt. What has
    landed is recorded first; where that is not known, or cannot be recorded, the attempt stays open with its slices
    free: only the target can say how it ended, and the next look asks it. An interrupt stays one: what a caller's own
    signal handler raised is what the caller gets."""
    where = run_label(claim.task, claim.labels)
    landing = Landing(
        where, lambda facts, aims: context.ledger.publish(claim.attempt, facts, generations=aims), wording
    )
    before = being_handled()
    try:
        yield landing
    except BaseException as error:
        if isinstance(error, Crash):
            raise
        interrupt = interruption(error, before)
        landing.settle()
        failure = landing.final_error(_as_failure(interrupt or error, where))
        if isinstance(failure, OutcomeUnknown):
            if landing.unrecorded is None:  # else the ledger has just shown that it cannot be written
                _let_go(context, claim)
        else:
            _close(context, claim, trace, failure, landing)
        try:
            landing.remove_unused()
        except BaseException as asked:
            if isinstance(asked, Crash):
                raise
            interrupt = interrupt or asked
        if interrupt is not None:
            raise_interrupt(interrupt, failure, error)
        if failure is error:
            raise
        raise failure from error


def raise_interrupt(interrupt: BaseException, failure: TwiceError, error: BaseException) -> NoReturn:
    """Raise Interrupted, which says what is now true of the table; for a caller that handles signals in its own way,
    what its handler raised. `error` is what arrived."""
    asked = asked_by(interrupt)
    if type(asked) not in (KeyboardInterrupt, Terminated, BrokenOff, Interrupted):
        raise asked
    raise Interrupted(failure, exit_code_of(interrupt)) from error


def _close(context: RunContext, claim: Claim, trace: Trace, failure: TwiceError, landing: Landing) -> None:
    """An attempt that is recorded as published stays so. One that has not begun to stage has left nothing."""
    state = AttemptState.SUPERSEDED if isinstance(failure, Superseded) else AttemptState.FAILED
    facts = Facts(error=failure.details(), seconds=trace.seconds)
    try:
        context.ledger.close_attempt(claim.attempt, state, facts)
        if not landing.staging:
            context.ledger.discarded(claim.attempt)
    except TwiceError as unrecorded:
        # The first error is what the person must know; the open attempt is settled by the next look.
        failure.fix += f" (The ledger could not record this failure: {unrecorded.what}.)"


def _let_go(context: RunContext, claim: Claim) -> None:
    """Who runs it next need not wait: the target lets one of two win."""
    with suppress(TwiceError):
        context.ledger.release(claim.attempt)


def _as_failure(error: BaseException, where: str) -> TwiceError:
    if isinstance(error, TwiceError):
        return error.at(where)
    if isinstance(error, Interrupted):
        return error.error.at(where)
    if interruption(error) is error:
        return RunError("interrupted", where=where, fix="Run it again: it will look first.")
    return RunError(
        f"{type(error).__name__}: {cause_line(error)}",
        where=where,
        fix=SEE_TRACE,
    )
