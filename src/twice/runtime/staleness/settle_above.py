"""What a person or a run is about to call read, or accepted, must be all that is published up to there: a process that
died between its commit and its record has left a publish that the ledger does not know."""

from __future__ import annotations

from typing import Any

from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.table.settle import settle_undecided


def settle_above(context: RunContext, task: Task, session: Any = None) -> None:
    """Settle what is undecided of the tasks that this one reads from. To be called after the versions were read up to
    which it counts: what lands later has a newer one. Dying in here leaves the rest to the next call."""
    for up in context.project.upstream(task):
        settle_undecided(context, up, session)
