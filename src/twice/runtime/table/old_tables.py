"""Tables that tasks wrote before they were given another one: what was begun there is still to be settled."""

from __future__ import annotations

from dataclasses import replace

from twice.core.task import TableName, Task
from twice.runtime.context import Workshop


def left_open(shop: Workshop) -> tuple[tuple[Workshop, Task], ...]:
    """Each task with open attempts on such a table, as it was, in a workshop in which it still writes that one."""
    found = []
    for name, table, ledger in shop.ledger.left_open():
        if name in shop.project.tasks:
            task = replace(shop.project.tasks[name], target=table_named(shop, table))
            project = replace(shop.project, tasks={**shop.project.tasks, name: task})
            found.append((replace(shop, project=project, ledger=ledger), task))
    return tuple(found)


def table_named(shop: Workshop, table: str) -> TableName:
    """A table as the ledger calls it (`delta:shop.orders`), as the project calls it."""
    return TableName.parse(table).located(shop.project.format)
