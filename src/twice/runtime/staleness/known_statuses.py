"""The status of slices as far as the tables' logs and the ledger alone tell it, before an engine is started.

Most of what `slice_status` finds needs no query plan: a slice that is missing or failed, other code, an input that
moved. A slice for which only its plan could say that it is right counts as right where its function makes the same plan
as before (its recipe); where that is not shown it is left out, and the full way asks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from twice.core.backfill.plan import PlannedSlice
from twice.core.ledger.record import InputRecord
from twice.core.ports import NeedsEngine
from twice.core.slice import Slice
from twice.core.table.token import Intention
from twice.core.task import Task
from twice.errors import TwiceError
from twice.runtime.context import RunContext
from twice.runtime.staleness.decide import rerun_of
from twice.runtime.staleness.plans import SameRecipe
from twice.runtime.staleness.slice_status import judged_slices
from twice.runtime.table.assign import names_of

_log = logging.getLogger("twice")


def known_statuses(context: RunContext, task: Task, slices: Sequence[Slice]) -> dict[Slice, PlannedSlice]:
    """What `slice_statuses` would find, of those slices for which that is known. `context` is one without an engine.
    None of them where a table cannot be read so, or where the full way asks it first whose old records are. Reads
    only."""
    if not slices or context.ledger.unassigned.any(names_of(task)):
        return {}
    plans = _Plans(SameRecipe.of(context, task))
    try:
        judged = judged_slices(context, task, slices, None, plans)
    except (NeedsEngine, OSError, TwiceError) as needs:
        _log.debug("%s: not answered from the log: %s", task.name, needs)
        return {}
    found = zip(slices, judged, strict=True)
    return {slice_: each.status for slice_, each in found if slice_.label not in plans.not_known}


class _Plans:
    """`not_known`: the slices of which only a query plan tells whether they are right."""

    def __init__(self, same: SameRecipe | None) -> None:
        self._same = same
        self.not_known: set[str] = set()

    def asked(self, task: Task) -> bool:
        return rerun_of(task) == "when_changed"

    def reason(
        self, slice_: Slice, held: Sequence[InputRecord], published: Intention, tables: frozenset[str]
    ) -> str | None:
        try:
            if self._same is not None:
                return self._same.reason(slice_, held, published, tables)
        except NeedsEngine as needs:
            _log.debug("%s: not answered from the log: %s", slice_.label, needs)
        self.not_known.add(slice_.label)
        return None
