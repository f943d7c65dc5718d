"""What an incremental task reads next: from its mark to an upper bound that is read once and then kept."""

from __future__ import annotations

from twice.core.results.summary import counted
from twice.core.since import CursorValue, Since, Window, mark_text, type_of
from twice.core.task import Task
from twice.errors import UNCHANGED, DeclarationError
from twice.runtime.context import RunContext
from twice.runtime.result.pins import Pins
from twice.runtime.table.stored_mark import cursor_input, frozen_bound, refuse_other_cursor, stored_mark


def next_window(context: RunContext, task: Task, version: int, pins: Pins) -> tuple[Window | None, tuple[str, ...]]:
    """The window after the mark that a token's version stands for; None if there is nothing new. And notes.

    The upper bound comes from the source, never from a clock. One that an earlier attempt from the same mark has
    frozen in the ledger is kept, so a retry does the work that failed; it is only lowered if the source shrank. One
    that leaves nothing to read is not kept: it was frozen for another `initial`, and would end every run from here on.
    """
    scope = task.scope
    assert isinstance(scope, Since), task.name
    mark = stored_mark(context.ledger, task, scope, version)
    refuse_other_cursor(context, task, scope, version, context.target_of(task.target, pins.session))
    low = scope.start if mark is None else mark
    name, table = cursor_input(task, scope)
    newest, nulls = context.engine.newest(pins.open(table), scope.cursor)
    notes: tuple[str, ...] = (
        (f"not read, because {scope.cursor} is NULL: {counted(nulls, 'row')} of {name}",) if nulls else ()
    )
    if newest is None:
        return None, notes
    _check_type(task, scope, name, newest)
    high = scope.held_back(newest)
    if low < scope.start:  # type: ignore[operator]
        notes += (f"initial={scope.initial} is later than the mark: it continues from the mark {mark_text(low)}",)
    # Keyed writes read the rows of the mark's own stamp again: one that arrived late is not lost, and the key makes
    # the others harmless. Without a key they are left to the next run, so that none comes twice.
    closed = task.write.kind != "append"

    def fresh(bound: CursorValue) -> bool:
        return bound > low or (closed and version == 0 and bound == low)  # type: ignore[operator]

    more = False
    frozen = frozen_bound(context.ledger, task, scope, version)
    if frozen is not None and fresh(frozen):
        more, high = frozen < high, min(high, frozen)  # type: ignore[operator]
    return (Window(low, high, closed, more) if fresh(high) else None), notes


def _check_type(task: Task, scope: Since, name: str, newest: CursorValue) -> None:
    if type_of(newest) != scope.type:
        raise DeclarationError(
            f"the cursor {scope.cursor} of {name} is of type {type_of(newest)}, and initial={scope.initial} is of type "
            f"{scope.type}",
            where=task.name,
            now=UNCHANGED,
            fix=f"Write initial= as a value of {scope.cursor}.",
        )
