"""Tables that tasks wrote before they were given another one: what was begun there is still to be settled."""

from __future__ import annotations

from dataclasses import replace

from twice.core.task import TableName, Task
from twice.runtime.context import RunContext


def left_open(context: RunContext) -> tuple[tuple[RunContext, Task], ...]:
    """Each task with attempts on such a table that are open or may have left files, as it was, in a context in which it
    still writes that one."""
    found = []
    for name, table, ledger in context.ledger.left_open():
        if name in context.project.tasks:
            task = replace(context.project.tasks[name], target=table_named(context, table))
            project = replace(context.project, tasks={**context.project.tasks, name: task})
            found.append((replace(context, project=project, ledger=ledger), task))
    return tuple(found)


def table_named(context: RunContext, table: str) -> TableName:
    """A table as the ledger calls it (`delta:shop.orders`), as the project calls it."""
    return TableName.parse(table).located(context.project.format)
