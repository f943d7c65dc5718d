"""recover: settle every attempt that did not report back, finish backfills with nothing left to do, and send the
effects that wait. It never runs a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twice.core.ledger.record import AttemptRecord, AttemptState
from twice.core.results.recover import Recovered, RecoverResult
from twice.core.task import Task
from twice.runtime.context import RunContext
from twice.runtime.effects.send import send_pending
from twice.runtime.table.garbage import collect_garbage, unreadable
from twice.runtime.table.old_tables import left_open
from twice.runtime.table.settle import stopped_reporting


def recover(context: RunContext, session: Any) -> RecoverResult:
    """Close what the targets can decide, then what no process works on: its process is seen to be gone, or its lease
    ran out. A second call finds nothing to do.

    An attempt declared dead that wakes up after all loses at the target, or, if it lands first, is recorded
    as published: its staged files are not touched before that is decided. The same for one that was given up before,
    and for what is open on a table that its task wrote before it was given another one. What is open on a table that
    cannot be read stays open: it may have landed.
    """
    context.progress.begins("looking for attempts that stopped reporting", "ledger")
    left = left_open(context)
    before = (*context.ledger.open_attempts(), *context.ledger.undiscarded(), *_open_in(left), *_left_in(left))
    removed = collect_garbage(context, session)
    unreadable_tables = {(one.task, one.former) for one in removed if one.unasked}
    context.progress.begins("closing attempts that stopped reporting", "ledger")
    here = [attempt for attempt in context.ledger.open_attempts() if (attempt.task, False) not in unreadable_tables]
    elsewhere = _open_in([there for there in left if (there[1].name, True) not in unreadable_tables])
    for attempt in (*here, *elsewhere):
        if stopped_reporting(context.ledger, attempt):
            context.ledger.close_attempt(attempt.id, AttemptState.ABANDONED)
    context.ledger.backfills.finish_done()
    send_pending(context)
    settled = tuple(
        Recovered(attempt.id, attempt.task, tuple(s.label for s in attempt.slices), after.state)
        for attempt in before
        if (after := context.ledger.attempt(attempt.id)) is not None
        and not after.state.open
        and after.state is not attempt.state
    )
    return RecoverResult(settled, unasked=unreadable(removed))


def _open_in(left: Sequence[tuple[RunContext, Task]]) -> tuple[AttemptRecord, ...]:
    return tuple(attempt for there, task in left for attempt in there.ledger.open_attempts(task.name))


def _left_in(left: Sequence[tuple[RunContext, Task]]) -> tuple[AttemptRecord, ...]:
    return tuple(attempt for there, task in left for attempt in there.ledger.undiscarded(task.name))
