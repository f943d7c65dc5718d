"""The side table of a rebuild: one process at a time works on it, and it holds what this code would fill it with. What
does not fit is dropped, and filled from the start."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from twice.core.failure.failpoints import Crash
from twice.core.ledger.record import Busy, Claim, ClaimRequest
from twice.core.ports import PreparedTable
from twice.core.scope import slices_named
from twice.errors import DeclarationError, SchemaDrift, SliceBusy, Superseded
from twice.runtime.holder import is_gone
from twice.runtime.rebuild.columns import new_shape
from twice.runtime.rebuild.plan import Rebuild, RebuildPlan
from twice.runtime.run.lease import beating
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.table.side_table import SideTable, drop_side, held_side, make_side, side_note
from twice.runtime.write_plan import layout_of

_LEASE = "side table"
"""In the place of a slice's label, in the rebuild's own ledger: who works on the side table."""


@contextmanager
def alone(rebuild: Rebuild) -> Iterator[None]:
    """Refuses a second process that would rebuild the table at the same time. A lease saves work alone: whoever finds
    its side table gone exchanges nothing."""
    ledger, side = rebuild.aside.ledger, rebuild.side_task
    wanted = ClaimRequest(side.name, (_LEASE,), uuid.uuid4().hex, "rebuild", rebuild.aside.holder)
    found = ledger.claim(wanted, rebuild.aside.lease)
    if isinstance(found, Busy) and is_gone(found.holder):
        ledger.release(found.attempt)
        found = ledger.claim(wanted, rebuild.aside.lease)
    if not isinstance(found, Claim):
        raise SliceBusy(
            f"another rebuild of it is at work ({found.holder}; its lease runs until {found.until:%H:%M:%S} UTC)",
            where=rebuild.task.name,
            now="This command changed nothing.",
            fix=f"Let it end. If it died: twice rebuild {rebuild.task.name} goes on from there once its lease is over.",
        )
    try:
        with beating(rebuild.aside, found):
            yield
    except BaseException as error:
        if not isinstance(error, Crash):
            _release(rebuild, found)
        raise
    else:
        _release(rebuild, found)


def _release(rebuild: Rebuild, claim: Claim) -> None:
    with suppress(Exception):  # it runs out by itself
        rebuild.aside.ledger.abandon_unlooked(claim.attempt)


def ready_side(rebuild: Rebuild, plan: RebuildPlan, first: bool) -> tuple[RebuildPlan, SideTable]:
    """The side table, made if it is missing, and what is left to fill in it. Raises DeclarationError for one that is
    not this task's. `first`: of this call; what an earlier one has filled may be of other code or inputs by now.

    Dying here leaves it as it was, or dropped, or made without rows.
    """
    context, task, side = rebuild.context, rebuild.task, rebuild.side_task
    shape = new_shape(rebuild, plan.computed[-1:] or plan.copied[-1:])
    with rebuild.aside.session() as session:
        target, layout = rebuild.target(session), layout_of(context.project.id, side)
        held = held_side(context, task, target)
        if held is not None and not first:
            fits = not _mixes(rebuild, plan)
        elif held is not None:
            into = _fitting(lambda: target.prepare(side.target, shape, layout, False))
            fits = into is not None and _may_go_on(rebuild, plan, held, session)
        else:
            fits = False
        if not fits:
            drop_side(context, task, target)
            code = rebuild.aside.code_hash(side)
            note = side_note(context, task, "rebuild", uuid.uuid4().hex, code)
            make_side(context, task, target, target.prepare(side.target, shape, layout, False), note)
            held = held_side(context, task, target)
            plan = replace(plan, filled={}, side_version=None)
        if held is None:
            raise gone(rebuild)
    return plan, held


def require_side(rebuild: Rebuild, side: SideTable) -> None:
    """Raises Superseded if the side table is gone, or another is in its place: a run would make it again, as nobody's
    and with the rows of its slices alone."""
    with rebuild.aside.session() as session:
        held = held_side(rebuild.context, rebuild.task, rebuild.target(session))
    if held is None or held.id != side.id:
        raise gone(rebuild)


def gone(rebuild: Rebuild) -> Superseded:
    return Superseded(
        f"{rebuild.side_task.target} was dropped by another command while this one worked on it",
        where=rebuild.task.name,
        now="This command did not exchange the table.",
        fix=f"Let the other command end, then: twice rebuild {rebuild.task.name}.",
    )


def _fitting(prepare: Callable[[], PreparedTable]) -> PreparedTable | None:
    """None where the side table has other columns, or another layout, than the result."""
    try:
        return prepare()
    except (DeclarationError, SchemaDrift):
        return None


def _may_go_on(rebuild: Rebuild, plan: RebuildPlan, held: SideTable, session: Any) -> bool:
    """Whether this call may go on with what an earlier one has filled: for a rebuild, by this code, and, where rows of
    another time would stay among the new ones, from the inputs of now."""
    if held.kind != "rebuild" or held.code != rebuild.aside.code_hash(rebuild.side_task):
        return False
    if _of_its_slice(rebuild):
        return True
    filled = slices_named(rebuild.task.scope, [label for label in plan.filled if label in plan.published])
    if _mixes(rebuild, plan) or len(filled) < len(plan.filled):
        return False
    statuses = slice_statuses(rebuild.aside, rebuild.side_task, filled, session)
    return all(each.status == "published" for each in statuses)


def _mixes(rebuild: Rebuild, plan: RebuildPlan) -> bool:
    """Whether filling again what was published since would leave rows of before beside those of now: a key that is not
    computed any more stays where rows are found by their keys."""
    return bool(plan.filling.outdated) and not _of_its_slice(rebuild)


def _of_its_slice(rebuild: Rebuild) -> bool:
    """Whether filling a slice again replaces every row that it was filled with before."""
    return rebuild.task.write.kind == "replace"
