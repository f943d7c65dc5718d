"""Inputs of a task that lie on a server, copied for a proof: the process it runs in can reach no server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twice.core.task import Task
from twice.errors import InputMissing

if TYPE_CHECKING:
    from twice.wiring import OpenProject


def copied_inputs(opened: OpenProject, task: Task, to: Path) -> dict[str, str]:
    """Where each lies now as a Delta table, by its name. Read in one snapshot of each server, whole; dying here leaves
    a scratch folder. Delta tables are read where they are, and need no session here."""
    if opened.targets.folder(task.target) is None:
        return {}  # which is told to be no proof's matter yet
    wanted = {str(each.table): each.table for each in task.inputs.values() if opened.targets.folder(each.table) is None}
    if not wanted:
        return {}
    with opened.context.session() as session:
        for name, table in wanted.items():
            target = opened.targets.of(table, session)
            if target.published(table, ()).version is None:
                raise InputMissing(f"the input table {name} does not exist", where=task.name)
            target.read(table).write.format("delta").save(str(to / name))
    return {name: str(to / name) for name in wanted}
