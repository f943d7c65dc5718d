"""Facts while they are being collected."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

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
    TxnFact,
    WriteFact,
)
from twice.lint.file_facts import FileFacts, Language, Notice, Role

Fact = (
    ClockFact
    | IdFact
    | WriteFact
    | ReadFact
    | TxnFact
    | MarkFact
    | EffectFact
    | TaskFact
    | OrderFact
    | ModelFact
    | SwallowFact
    | RunFact
    | Notice
)
_SHELF: dict[type, str] = {
    ClockFact: "clocks",
    IdFact: "ids",
    WriteFact: "writes",
    ReadFact: "reads",
    TxnFact: "transactions",
    MarkFact: "marks",
    EffectFact: "effects",
    TaskFact: "tasks",
    OrderFact: "orders",
    ModelFact: "models",
    SwallowFact: "swallows",
    RunFact: "runs",
    Notice: "notices",
}


class Gathering:
    """A growing set of facts. The same fact found twice (two names for one string) is kept once."""

    def __init__(self) -> None:
        self._shelves: dict[str, dict[Any, None]] = {name: {} for name in _SHELF.values()}
        self.traits: set[str] = set()

    def add(self, *facts: Fact) -> None:
        for fact in facts:
            self._shelves[_SHELF[type(fact)]].setdefault(fact)

    def all(self, kind: type) -> list[Any]:
        return list(self._shelves[_SHELF[kind]])

    def everything(self) -> list[Fact]:
        return [fact for shelf in self._shelves.values() for fact in shelf]

    def as_facts(self, path: str, language: Language, role: Role, **more: Any) -> FileFacts:
        known = {part.name for part in fields(FileFacts)}
        shelves = {name: tuple(items) for name, items in self._shelves.items() if name in known}
        parts: dict[str, Any] = {**shelves, **more}
        return FileFacts(path, language, role, traits=frozenset(self.traits), **parts)
