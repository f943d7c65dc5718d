"""prune: delete what is old and no longer decides anything, in the ledger and in twice's tables in PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from twice.core.ledger.record import Pruned
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.table.garbage import collect_garbage, unreadable, why_unreadable

SHORTEST = timedelta(days=1)
"""What a process may still be at work on is not old."""


@dataclass(frozen=True)
class Tidied:
    """What went from the ledger, and how many commits were forgotten beside the tables. `unasked`: tables that could
    not be read, and why; the next call tries them again."""

    ledger: Pruned
    commits: int
    unasked: tuple[str, ...] = ()


def prune(context: RunContext, session: Any, older_than: timedelta) -> Tidied:
    """Attempts that did not report back are settled first: a commit that is forgotten proves nothing for its attempt. A
    second call finds nothing. Dying in here leaves the rest to the next call."""
    refuse_young(older_than)
    removed = collect_garbage(context, session)
    before = context.ledger.now() - older_than
    context.ledger.backfills.finish_done()  # one that runs is never pruned
    context.progress.begins("deleting old records", "ledger")
    pruned = context.ledger.prune(before)
    commits, skipped = 0, list(unreadable(removed))
    for task in context.project.tasks.values():
        # The attempts that a table was not asked about are still to be settled by its commits.
        if not any(one.unasked and one.task == task.name for one in removed):
            context.progress.begins("deleting old records", task.name)
            try:
                commits += context.target_of(task.target, session).forget(task.target, before)
            except Exception as error:  # noqa: BLE001 - the next call finds what it has to forget
                skipped.append(why_unreadable(task, error))
    return Tidied(pruned, commits, tuple(skipped))


def refuse_young(older_than: timedelta) -> None:
    if older_than < SHORTEST:
        raise UsageError(
            "what is younger than a day is not pruned",
            now="Nothing was deleted.",
            fix="Give a day or more: twice ledger prune --older-than 1d.",
        )
