"""A history under way: the target that it is played on, and every state that the rules and what was seen allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from twice.core.task import Task
from twice.runtime.context import RunContext

from .model import Model
from .steps import Declared, Row, Step


class Warehouses(Protocol):
    """A target under test: two warehouses on one ledger, each with a source that other people write."""

    sent: list[list[tuple[str, str]]]
    """By side: (task, slice) of every effect that went out."""
    shows_foreign: bool
    """Whether the target can tell that somebody else changed a slice."""

    def context(self, side: int) -> RunContext: ...

    def arrive(self, side: int, rows: Sequence[Row]) -> None: ...

    def delete(self, side: int, table: str, id_: int) -> None: ...

    def withdraw(self, side: int, id_: int) -> None:
        """The source loses rows."""

    def rows(self, side: int, table: str) -> Counter[Row]:
        """Empty for a table that does not exist yet."""

    def columns(self, side: int, table: str) -> list[str]:
        """Those that a reader sees; none of a table that does not exist yet, or was never published."""

    def declare(self, side: int, declared: Declared) -> None:
        """A side's project again, with other declarations of its tasks."""

    def pass_time(self) -> None:
        """Longer than any lease."""


@dataclass
class Game:
    warehouses: Warehouses
    possible: list[list[Model]] = field(default_factory=lambda: [[Model()], [Model()]])
    """By side: every state that the rules and what was seen so far allow."""
    foreign: set[tuple[int, str, str | None]] = field(default_factory=set)
    """Side, task and slice (None where it has a mark) of what was published before somebody else deleted rows: from
    that slice, or from the table, where a slice owns no rows."""

    def declared(self, side: int) -> Declared:
        return self.possible[side][0].declared

    def declare(self, side: int, declared: Declared) -> None:
        self.warehouses.declare(side, declared)
        for model in self.possible[side]:
            model.declared = declared

    def task(self, side: int, table: str) -> Task:
        """The one that writes the table, as it is declared now."""
        return self.warehouses.context(side).project.task(self.declared(side).name_of(table))

    def refused(self, side: int, table: str, step: Step) -> None:
        """The target has refused it: the states are left in which it had to."""
        self.possible[side] = [model for model in self.possible[side] if model.refuses(table)]
        assert self.possible[side], f"{step} was refused"
