"""A look at all that a task has published, as the ledger keeps it until the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twice.core.backfill.plan import PlannedSlice
from twice.core.closed import assert_never
from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.record import RunRecord
from twice.core.scope import slices_named
from twice.core.slice import Slice
from twice.core.task import Task
from twice.runtime.context import RunContext

NOT_HELD = "its table does not hold it: it was recreated, or replaced by an older copy"
"""Of a slice that the ledger has as published."""


Statuses = Callable[[Sequence[Slice]], Sequence[PlannedSlice]]


def look_at(context: RunContext, task: Task, statuses: Statuses) -> Look:
    """All that the ledger has as published of a task, held against its table, its inputs and its code: `statuses` asks
    these. Reads only. Of what was tried meanwhile it says nothing."""
    at, code = context.ledger.now(), context.code_hash(task)
    runs = {run.label: run for run in context.ledger.runs(task.name) if run.generation}
    slices = sorted(slices_named(task.scope, runs))
    found = statuses(slices) if slices else ()
    seen = (_seen(runs[each.label], each) for each in found)
    return Look(task.name, at, code, len(slices), tuple(each for each in seen if each is not None))


def _seen(run: RunRecord, found: PlannedSlice) -> SeenSlice | None:
    """None where the slice is right; or failed, which the ledger knows better."""
    known = run.generation, run.attempt, run.last_attempt
    match found.status:
        case "stale":
            return SeenSlice(run.label, "stale", found.why, *known)
        case "missing":
            return SeenSlice(run.label, "missing", NOT_HELD, *known)
        case "published" | "failed" | "downstream":
            return None
        case _:
            assert_never(found.status)
