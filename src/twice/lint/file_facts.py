"""All facts of one file, and of one project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

from twice.lint.facts import (
    ClockFact,
    EffectFact,
    IdFact,
    MarkFact,
    ModelFact,
    OrderFact,
    ReadFact,
    RunFact,
    SwallowFact,
    TaskFact,
    TextSpan,
    TxnFact,
    WriteFact,
)

Language = Literal["python", "sql", "dbt", "notebook"]
Role = Literal["pipeline", "test", "tooling", "setup"]
"""test: findings are not reported; tooling and setup (migrations, generators): only what is certain."""

T = TypeVar("T")


@dataclass(frozen=True)
class Suppression:
    """A comment ``twice: ignore[CODES] reason``. On a line of its own it covers the next line of code."""

    span: TextSpan
    codes: tuple[str, ...]
    reason: str
    covers: tuple[int, int]
    """First and last line covered; (0, 0) means the whole file."""


@dataclass(frozen=True)
class Notice:
    """What a person must know about a file and is no finding: it could not be read, or only in part."""

    path: str
    line: int
    message: str


@dataclass(frozen=True)
class FileFacts:
    path: str
    language: Language
    role: Role = "pipeline"
    module: str = ""
    clocks: tuple[ClockFact, ...] = ()
    ids: tuple[IdFact, ...] = ()
    writes: tuple[WriteFact, ...] = ()
    reads: tuple[ReadFact, ...] = ()
    runs: tuple[RunFact, ...] = ()
    transactions: tuple[TxnFact, ...] = ()
    marks: tuple[MarkFact, ...] = ()
    effects: tuple[EffectFact, ...] = ()
    tasks: tuple[TaskFact, ...] = ()
    orders: tuple[OrderFact, ...] = ()
    swallows: tuple[SwallowFact, ...] = ()
    models: tuple[ModelFact, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    notices: tuple[Notice, ...] = ()
    imports: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    """Of the whole file: dynamic_overwrite, airflow, streaming, spark, …"""

    def moved(self, where: Callable[[TextSpan], TextSpan]) -> FileFacts:
        """The same facts, every position passed through `where` (notebook cells, lines of a template)."""
        return _moved(self, where)

    def joined(self, other: FileFacts) -> FileFacts:
        """These facts and those of `other`, under this file's path, language and role."""
        changes: dict[str, Any] = {
            part.name: getattr(self, part.name) + getattr(other, part.name)
            for part in fields(self)
            if isinstance(getattr(self, part.name), tuple)
        }
        changes["traits"] = self.traits | other.traits
        return replace(self, **changes)


@dataclass(frozen=True)
class ProjectFacts:
    """All files of one run and what only shows when they are seen together."""

    files: tuple[FileFacts, ...] = ()
    traits: frozenset[str] = frozenset()
    tasks_of: dict[str, tuple[tuple[str, TaskFact], ...]] = field(default_factory=dict)
    """For each path, the tasks (with the path they are in) that run code of that file."""
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each table created somewhere in the project, its primary or unique key (of business columns)."""


def _moved(value: T, where: Callable[[TextSpan], TextSpan]) -> T:
    if isinstance(value, TextSpan):
        return where(value)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_moved(item, where) for item in value)  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        changes = {part.name: _moved(getattr(value, part.name), where) for part in fields(value)}
        if isinstance(value, Suppression) and value.covers != (0, 0):
            first, last = (where(TextSpan(line)).line for line in value.covers)
            changes["covers"] = (first, last)
        return replace(value, **changes)
    return value
