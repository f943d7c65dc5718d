"""accept: a person decides that what a task keeps is right as it is, although what it read was published again."""

from __future__ import annotations

import uuid

from twice.core.ledger.record import AcceptedSlice
from twice.core.slice import Slice
from twice.core.task import Task
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.staleness.kept import keeps, kept_slices
from twice.runtime.staleness.settle_above import settle_above
from twice.runtime.staleness.stale import Stale
from twice.runtime.upkeep.human_decision import HumanDecision


def accept(context: RunContext, task: Task, wanted: Slice | None, decision: HumanDecision) -> tuple[Stale, ...]:
    """What was accepted: all that is kept of the task, or one slice. It is not named again until its inputs are
    published again. No table is touched, and how its last run ended stays on record; accepted twice, there is nothing
    left the second time. A run that publishes meanwhile is not what was looked at, and is not accepted.

    Dying in here has accepted all of it or nothing.
    """
    refuse_computed(task)
    ledger = context.ledger
    context.progress.begins("looking what landed above it", task.name)
    # The versions first, then what landed up to them without being recorded, then what is named: nothing is accepted
    # that is not among these.
    versions = {
        str(context.project.located(up.target)): ledger.last_version(up.name) or 0
        for up in context.project.upstream(task)
    }
    settle_above(context, task)
    context.progress.begins("comparing what it read with what is there now", task.name)
    published = {run.label: run.generation for run in ledger.runs(task.name)}
    found = [each for each in kept_slices(context.project, ledger, task) if wanted in (None, each.slice)]
    if found:
        what = [AcceptedSlice(each.slice.label, published[each.slice.label], versions) for each in found]
        why = f"accepted as it is by {decision.by}: {decision.reason}"
        ledger.record_acceptance(task.name, uuid.uuid4().hex, context.holder, why, what)
    return tuple(found)


def refuse_computed(task: Task) -> None:
    if not keeps(task):
        raise UsageError(
            "what is stale of this task is computed again, so there is nothing to accept",
            where=task.name,
            fix=f"Run it: twice backfill {task.name} --only stale.",
        )
