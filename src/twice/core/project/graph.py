"""The project's graph as data, from declarations alone: what runs after what, and which slices of a task read what a
slice of another one holds. Nothing here runs user code.

Slices are followed exactly: a slice too many is published for nothing, perhaps empty; one too few keeps old rows. A
column of a table is a DATE or an instant, whatever its scopes are cut by. A day of New York holds one date in its slice
column and some 24 hours in its TIMESTAMP column: a task of UTC days that reads by the date reads it with one of its
days, one that reads by the instant with two.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from datetime import date, datetime, timedelta, timezone
from typing import Any

from twice.core.local_day import midnight
from twice.core.project.project import Project
from twice.core.slice import Slice
from twice.core.task import TableName, Task
from twice.core.time_scope import TimeScope


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


_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)

Values = tuple[date, date] | tuple[datetime, datetime]
"""`low <= value < high`: two dates, or two instants."""


def values_of(scope: TimeScope, slice_: Slice, column: str) -> Values | None:
    """Which values the rows of a slice may have in a column of their table; None if the scope says nothing about it."""
    held, name = scope.held_in, column.lower()
    if held.derived and name == held.name.lower():
        assert slice_.bounds is not None, slice_.label
        low = slice_.bounds.low  # every row of the slice has this one value
        return (low, low + _INSTANT) if isinstance(low, datetime) else (low, low + _DAY)
    if name != held.source.lower():
        return None
    if held.source_type == "date":
        return slice_.start.date(), slice_.end.date()
    return slice_.start, slice_.end


def reading_slices(scope: TimeScope, values: Values, before: timedelta) -> tuple[Slice, ...]:
    """The slices that read rows with these values, of an input that is cut to the slice and widened by `before`."""
    low, high = values
    if isinstance(low, datetime) and isinstance(high, datetime):
        return scope.reading(low, high, before)
    near = scope.reading(_noon(low) - 2 * _DAY, _noon(high) + 2 * _DAY, before)
    return tuple(slice_ for slice_ in near if _reads_dates(scope, slice_, before, low, high))


def _reads_dates(scope: TimeScope, slice_: Slice, before: timedelta, low: date, high: date) -> bool:
    """As an input is cut on a DATE column: by the dates that begin where the slice does."""
    first = midnight(scope.widened(slice_, before), scope.zone)
    end = midnight(slice_.end, scope.zone)
    if first is None or end is None:
        return False  # not whole days: its run is refused, since a date says nothing about the hour
    return first < high and low < end


def _noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=timezone.utc)
