"""prune: let go of what is old and decides nothing any more, in the ledger and beside PostgreSQL's tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from twice.core.ledger.record import Pruned
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.table.garbage import collect_garbage

SHORTEST = timedelta(days=1)
"""What a process may still be at work on is not old."""


@dataclass(frozen=True)
class Tidied:
    """What went from the ledger, and how many commits were forgotten beside the tables."""

    ledger: Pruned
    commits: int


def prune(context: RunContext, session: Any, older_than: timedelta) -> Tidied:
    """Attempts that did not report back are settled first: a commit that is forgotten proves nothing for its attempt. A
    second call finds nothing. Dying in here leaves the rest to the next call."""
    if older_than < SHORTEST:
        raise UsageError("what is younger than a day is not pruned", fix="Give --older-than 1d or more.")
    collect_garbage(context, session)
    before = context.ledger.now() - older_than
    pruned = context.ledger.prune(before)
    commits = sum(
        context.target_of(task.target, session).forget(task.target, before) for task in context.project.tasks.values()
    )
    return Tidied(pruned, commits)
