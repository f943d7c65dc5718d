"""The project's graph as data: what runs after what, from declarations alone. Nothing here runs user code."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from twice.core.project import Project
from twice.core.task import TableName, Task


@dataclass(frozen=True)
class Input:
    """A table that a task reads. `task` is the one that writes it; None for a table from elsewhere."""

    table: str
    by: str | None
    task: str | None


@dataclass(frozen=True)
class TaskNode:
    """One task. Tasks of one `level` do not read from each other; each comes after all lower levels."""

    task: str
    target: str
    write: str
    scope: str
    level: int
    inputs: tuple[Input, ...]

    @property
    def after(self) -> tuple[str, ...]:
        """The tasks it waits for."""
        return tuple(sorted({source.task for source in self.inputs if source.task not in (None, self.task)}))


def graph(project: Project) -> tuple[TaskNode, ...]:
    """Every task, level by level, by name within a level: an order in which they may run."""
    writers = {project.located(task.target): task.name for task in project.tasks.values()}
    levels: dict[str, int] = {}
    for task in project.in_order():
        levels[task.name] = 1 + max((levels[up.name] for up in project.upstream(task)), default=0)
    nodes = [_node(project, task, levels[task.name], writers) for task in project.tasks.values()]
    return tuple(sorted(nodes, key=lambda node: (node.level, node.task)))


def declaration_text(name: str, declared: Any) -> str:
    """A declaration as it is written, without what was left at its default: `merge(order_id, newest_by=updated_at)`."""
    parts: list[str] = []
    for position, each in enumerate(fields(declared)):
        value = getattr(declared, each.name)
        if each.default is MISSING or value != each.default:
            shown = ", ".join(value) if isinstance(value, tuple) else str(value)
            parts.append(shown if position == 0 else f"{each.name}={shown}")
    return f"{name}({', '.join(parts)})"


def _node(project: Project, task: Task, level: int, writers: dict[TableName, str]) -> TaskNode:
    return TaskNode(
        task=task.name,
        target=str(task.target),
        write=declaration_text(task.write.name, task.write),
        scope=declaration_text(type(task.scope).__name__, task.scope),
        level=level,
        inputs=tuple(
            Input(str(source.table), source.by, writers.get(project.located(source.table)))
            for source in task.inputs.values()
        ),
    )
