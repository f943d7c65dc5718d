"""A person's decision that what a task keeps is right as it is, although what it read was published again since."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from twice.core.ledger.record import TABLE, AttemptState, Facts, InputRecord
from twice.core.results.run import RunRequest
from twice.core.slice import Slice
from twice.core.task import Task
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.run.attempt import releasing_on_interrupt
from twice.runtime.run.lease import claim_slices
from twice.runtime.staleness.kept import keeps, kept_slices
from twice.runtime.staleness.stale import Stale
from twice.runtime.write_plan import make_write_plan


@dataclass(frozen=True)
class Acceptance:
    """Who accepted it, and why. Kept in the ledger."""

    by: str
    reason: str


def accept(context: RunContext, task: Task, wanted: Slice | None, acceptance: Acceptance) -> tuple[Stale, ...]:
    """What was accepted: all that is kept of the task, or one slice. It is not named again until its inputs are
    published again. No table is touched; accepted twice, there is nothing left the second time.

    Dying before the attempt is closed leaves a lease that runs out, and everything named as before.
    """
    if not keeps(task):
        raise UsageError(
            "what is stale of this task is computed again, so there is nothing to accept",
            where=task.name,
            fix=f"Run it: twice backfill {task.name} --only stale.",
        )
    found = [each for each in kept_slices(context.project, context.ledger, task) if wanted in (None, each.slice)]
    if not found:
        return ()
    # Before the claim: what is published above from here on is not what was looked at.
    known = {up: context.ledger.last_version(up.name) or 0 for up in context.project.upstream(task)}
    plan = make_write_plan(context.project.id, task, tuple(each.slice for each in found))
    attempt = uuid.uuid4().hex
    with releasing_on_interrupt(context, attempt):
        claim_slices(context, task, plan, RunRequest(), attempt)
    pins = tuple(
        InputRecord(each.slice.label, TABLE, str(context.project.located(up.target)), None, version)
        for each in found
        for up, version in known.items()
    )
    why = f"accepted as it is by {acceptance.by}: {acceptance.reason}"
    context.ledger.close_attempt(attempt, AttemptState.UNCHANGED, Facts(inputs=pins, why=why))
    context.ledger.discarded(attempt)
    return tuple(found)
