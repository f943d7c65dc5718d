"""Tables that were being built beside a task's own, left by a process that died: named, and dropped where they are of
no use any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twice.core.ports import Target
from twice.core.results.summary import counted
from twice.core.table.rebuild import side_table
from twice.core.task import Task
from twice.errors import DeclarationError
from twice.runtime.context import RunContext
from twice.runtime.holder import is_gone
from twice.runtime.rebuild.exchange import exchanged_before
from twice.runtime.rebuild.plan import Rebuild
from twice.runtime.table.garbage import why_unreadable
from twice.runtime.table.side_table import SideTable, drop_side, held_side


@dataclass(frozen=True)
class LeftCopy:
    """`kept`: why it is not dropped, and what ends it; empty where it is gone. Somebody else's table is not named."""

    task: str
    table: str
    kept: str = ""


def collect_copies(context: RunContext, session: Any) -> tuple[LeftCopy, ...]:
    """Of every declared task. What a rebuild has filled slice by slice is worth going on with: it is named, and stays
    unless it was exchanged already. A second call finds no more to drop. Dying in here leaves the rest to the next."""
    found = []
    for task in context.project.in_order():
        try:
            left = _collected(context, task, context.target_of(task.target, session))
        except DeclarationError:
            continue
        except Exception as error:  # noqa: BLE001 - it is away, or gone for good: the others are looked at
            left = LeftCopy(
                task.name, str(side_table(task.target)), f"it could not be read: {why_unreadable(task, error)}"
            )
        if left is not None:
            found.append(left)
    return tuple(found)


def _collected(context: RunContext, task: Task, target: Target) -> LeftCopy | None:
    held, name = held_side(context, task, target), str(side_table(task.target))
    if held is None:
        return None
    why = _why_kept(context, task, target, held)
    if why is None:
        drop_side(context, task, target)
    return LeftCopy(task.name, name, why or "")


def _why_kept(context: RunContext, task: Task, target: Target, held: SideTable) -> str | None:
    dead = is_gone(held.holder or "")
    if held.copy:
        return None if dead else f"{held.holder} may be at work on it; the next adopt or rebuild drops it"
    rebuild = Rebuild(context, context, task)
    prefix = rebuild.side_token("")
    tokens = target.tokens(rebuild.side_task.target, prefix)
    filled = {name.removeprefix(prefix): each.generation for name, each in tokens.items()}
    if filled and dead and exchanged_before(rebuild, target, filled, held.id) is not None:
        return None
    slices = counted(len(filled), "slice")
    return f"{slices} of a rebuild are in it: go on with twice rebuild {task.name}, or drop it with --abandon"
