"""The project: its tasks and the graph their declared inputs make. Nothing here runs user code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from twice.core.task import TableName, Task
from twice.errors import DeclarationError, UsageError


@dataclass(frozen=True)
class Project:
    """`id` is fixed in twice.toml: it is part of every token, so changing it forgets what was published.
    `format`: the table system of names without one."""

    id: str
    tasks: Mapping[str, Task]
    format: str = "delta"

    def located(self, table: TableName) -> TableName:
        """`postgres:shop.orders` and `shop.orders` are two tables; `shop.orders` and `delta:shop.orders` are one."""
        return table.located(self.format)

    def task(self, name: str) -> Task:
        if name in self.tasks:
            return self.tasks[name]
        renamed = [task.name for task in self.tasks.values() if name in task.formerly]
        if renamed:
            raise UsageError(f"there is no task {name!r} any more", fix=f"It is {renamed[0]} now, as formerly= says.")
        near = get_close_matches(name, self.tasks, n=1)
        known = f"Did you mean {near[0]}?" if near else f"Known tasks: {', '.join(sorted(self.tasks)) or 'none'}."
        raise UsageError(f"there is no task {name!r} in this project", fix=known)

    def upstream(self, task: Task) -> tuple[Task, ...]:
        """The tasks whose targets this task reads."""
        writers = {self.located(other.target): other for other in self.tasks.values()}
        tables = {self.located(source.table) for source in task.tables.values()} - {self.located(task.target)}
        return tuple(writers[table] for table in sorted(tables) if table in writers)

    def in_order(self) -> tuple[Task, ...]:
        """Every task after the tasks it reads from; names decide between equals."""
        graph = {name: [up.name for up in self.upstream(task)] for name, task in sorted(self.tasks.items())}
        return tuple(self.tasks[name] for name in TopologicalSorter(graph).static_order())


def assemble(project_id: str, tasks: Iterable[Task], format_: str = "delta") -> Project:
    """Check what concerns several tasks at once: names, targets, cycles."""
    by_name: dict[str, Task] = {}
    writers: dict[TableName, Task] = {}
    for task in tasks:
        if task.name in by_name:
            raise DeclarationError(
                f"two tasks are named {task.name} ({_source_name(by_name[task.name])} and {_source_name(task)})",
                fix="Rename one; formerly= keeps its history.",
            )
        # Names that differ by case are one table for most systems.
        table = TableName(task.target.name.lower(), task.target.format).located(format_)
        if table in writers:
            raise DeclarationError(
                f"{writers[table].name} and {task.name} both write {task.target}",
                fix="A table has one task; give one of them its own target.",
            )
        by_name[task.name] = writers[table] = task
    _refuse_taken_names(by_name)
    project = Project(project_id, by_name, format_)
    try:
        project.in_order()
    except CycleError as error:
        raise DeclarationError(
            f"the inputs make a cycle: {' -> '.join(error.args[1])}",
            fix="Break it: read an earlier table instead.",
        ) from error
    return project


def _refuse_taken_names(tasks: Mapping[str, Task]) -> None:
    """Tokens go by a task's first name: two tasks with one would take each other's slices for published."""
    first: dict[str, Task] = {}
    for task in tasks.values():
        other = first.setdefault(task.first_name, task)
        if other is not task:
            raise DeclarationError(
                f"{other.name} and {task.name} both were {task.first_name} first",
                fix="formerly= belongs to the task that took the history over; give the other a new name.",
            )
    had: dict[str, Task] = {}
    for task in tasks.values():
        for old in task.formerly:
            if had.setdefault(old, task) is not task:
                raise DeclarationError(
                    f"{had[old].name} and {task.name} both were {old} once",
                    fix="formerly= belongs to the task that took the history over; leave that name out of the other.",
                )
            if old in tasks and old != task.name:
                # Its records in the ledger would be taken for this one's.
                raise DeclarationError(
                    f"{task.name} was {old} once, and {old} is a task of this project",
                    fix="Leave that name out of formerly=, or give the other task a new name.",
                )


def _source_name(task: Task) -> str:
    return task.source.name if task.source else "the notebook"
