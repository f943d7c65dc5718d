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
from typing import Any, Literal

from twice.core.closed import assert_never
from twice.core.file_input import Files
from twice.core.local_day import midnight
from twice.core.param import Param
from twice.core.project.project import Project
from twice.core.slice import Slice
from twice.core.task import Input as DeclaredInput
from twice.core.task import Policy, Read, TableName, Task
from twice.core.time_scope import TimeScope

InputKind = Literal["table", "files", "param"]


@dataclass(frozen=True)
class Input:
    """What a task reads: a table, files by their pattern, or a param by where its value comes from. `task` is the one
    that writes the table; None for what comes from elsewhere."""

    table: str
    by: str | None
    task: str | None
    kind: InputKind = "table"
    watch: bool = True


@dataclass(frozen=True)
class TaskNode:
    """One task. Tasks of one `level` do not read from each other; each comes after all lower levels."""

    task: str
    target: str
    write: str
    scope: str
    level: int
    inputs: tuple[Input, ...]
    tags: tuple[str, ...] = ()

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


def declared_parts(task: Task) -> list[tuple[str, str]]:
    """A task as it is declared, part by part, for people. Parts that were left out are not named."""
    parts = {
        "scope": declaration_text(type(task.scope).__name__, task.scope),
        "write": declaration_text(task.write.name, task.write),
        "inputs": ", ".join(f"{name}: {_read_text(source)}" for name, source in task.inputs.items()),
        "audits": ", ".join(audit.name for audit in task.audits),
        "effects": ", ".join(effect.name for effect in task.effects),
        "policy": ", ".join(f"{name}={value}" for name, value in _changed(task.policy)),
        "formerly": ", ".join(task.formerly),
        "tags": ", ".join(task.tags),
        "file": task.source.name if task.source else "",
    }
    return [(name, text) for name, text in parts.items() if text]


def _changed(policy: Policy) -> list[tuple[str, object]]:
    usual = Policy()
    values = [(each.name, getattr(policy, each.name)) for each in fields(policy)]
    return [(name, value) for name, value in values if value != getattr(usual, name)]


def _read_text(source: DeclaredInput) -> str:
    match source:
        case Read():
            return f"read({source.table}{_cut_text(source)})"
        case Files():
            return f"read.files({source.pattern}{_cut_text(source)})"
        case Param():
            return f"param({source.origin})"
        case _:
            assert_never(source)


def _cut_text(source: Read | Files) -> str:
    by = f", by={source.by}" if source.by else ""
    before = f", before={str(source.before).removesuffix(', 0:00:00')}" if source.before else ""
    return f"{by}{before}" if source.watch else f"{by}{before}, watch=False"


def _node(project: Project, task: Task, level: int, writers: dict[TableName, str]) -> TaskNode:
    return TaskNode(
        task=task.name,
        target=str(task.target),
        write=declaration_text(task.write.name, task.write),
        scope=declaration_text(type(task.scope).__name__, task.scope),
        level=level,
        inputs=tuple(_input(project, name, source, writers) for name, source in task.inputs.items()),
        tags=task.tags,
    )


def _input(project: Project, name: str, source: DeclaredInput, writers: dict[TableName, str]) -> Input:
    match source:
        case Read():
            writer = writers.get(project.located(source.table))
            return Input(str(source.table), source.by, writer, watch=source.watch)
        case Files():
            return Input(source.pattern, source.by, None, "files", source.watch)
        case Param():
            return Input(f"{name} ({source.origin})", None, None, "param")
        case _:
            assert_never(source)


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
