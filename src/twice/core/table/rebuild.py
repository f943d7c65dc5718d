"""A rebuild: every slice of a task filled again in a table beside its own, which is then exchanged for it. Pure.

The side table's tokens say what each slice was filled for: of a slice whose token in the table has the generation `g`,
the side table's has `(g + 1) * 2^20 + n`, where `n` counts how often it was filled. So after any crash the two tables
alone show what is left to do, and a slice that was published meanwhile is seen to be out of date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from twice.core.scope import Whole
from twice.core.since import Since
from twice.core.task import TableName, Task
from twice.errors import DeclarationError

SIDE = "__rebuild"
"""The name of a side table, and of the task that fills it, ends so."""

COPIED = "copied"
"""Of rows in a side table, in the place of the code's hash: they are the table's own."""

_FILLS = 20
"""Bits that count how often a slice was filled for one generation."""


def side_table(table: TableName) -> TableName:
    return TableName(f"{table.name}{SIDE}", table.format)


def side_token(project: str, task: Task) -> str:
    """The token that the commit which makes a side table moves: only a table that holds it is this task's to fill and
    to drop."""
    return f"twice-side/{project}/{task.first_name}"


def not_ours(table: TableName) -> DeclarationError:
    """Of a table that does not hold the token of whoever made it to be exchanged."""
    return DeclarationError(
        f"{table} is not a table that this task filled beside its own: twice neither fills nor drops it",
        now="Nothing was changed.",
        fix=f"Give {table.name} another name, or drop it yourself if nobody needs it.",
    )


def side_task(task: Task) -> Task:
    """The task as it fills the side table: the same code and audits, under a name and tokens of its own, without
    effects: what it publishes is seen by nobody."""
    return replace(task, name=f"{task.first_name}{SIDE}", target=side_table(task.target), formerly=(), effects=())


def why_not_computed(task: Task) -> str | None:
    """Why the slices of this task's table cannot be computed again, so that its rows are copied; None if they can."""
    if isinstance(task.scope, Since):
        return "it goes on from its mark"
    if not task.write.restatable:
        return f"{task.write.name}() keeps what was published"
    if any(_same_table(source.table, task.target) for source in task.tables.values()):
        return "it reads its own table"
    return None


def rebuild_token(project: str, task: Task) -> str:
    """The token that a copy of the whole table moves; those of the slices, and the mark, stay where they are."""
    return f"twice-rebuild/{project}/{task.first_name}"


def _same_table(one: TableName, other: TableName) -> bool:
    """In doubt yes: a name without its table system has the default one."""
    return one.name.lower() == other.name.lower() and (one.format == other.format or None in (one.format, other.format))


def fill_number(generation: int) -> int:
    """The least version of a side token for a slice whose own token has this generation."""
    return (generation + 1) << _FILLS


def filled_for(number: int) -> int | None:
    """The generation that a slice of the side table was filled for; None if it was not filled."""
    return (number >> _FILLS) - 1 if number else None


@dataclass(frozen=True)
class Filling:
    """What is left to do of a rebuild, by label: `missing` slices were never filled, `outdated` ones were published
    since they were filled, `ready` ones wait for the exchange. `ahead`: filled for a generation that the table does not
    have yet or any more: it was put back to an older state."""

    missing: tuple[str, ...]
    outdated: tuple[str, ...]
    ready: tuple[str, ...]
    ahead: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not (self.missing or self.outdated or self.ahead)


def filling(published: Mapping[str, int], filled: Mapping[str, int]) -> Filling:
    """By the generations of the table's tokens, and the numbers of the side table's, by label."""
    by_state: dict[str, list[str]] = {"missing": [], "outdated": [], "ready": [], "ahead": []}
    for label, generation in sorted(published.items()):
        base = filled_for(filled.get(label, 0))
        state = (
            "missing"
            if base is None
            else "ready"
            if base == generation
            else "outdated"
            if base < generation
            else "ahead"
        )
        by_state[state].append(label)
    return Filling(**{name: tuple(labels) for name, labels in by_state.items()})


def in_range(labels: Iterable[str], first: str | None, last: str | None) -> tuple[str, ...]:
    """Both ends included. The labels of one scope sort as their slices do."""
    return tuple(label for label in labels if (first or label) <= label <= (last or label))


def of_one_slice(task: Task) -> bool:
    """Whether the task's table is one slice, which no range can name a part of."""
    return isinstance(task.scope, Whole)
