"""What the histories have on every target: two sides on one ledger, and a list of what went out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from tests.proof.histories.late_clock import LateClock

from twice import PublishedSlice
from twice.core.ledger.record_owner import RecordOwner
from twice.core.ports import Engine, Target
from twice.core.task import TableName
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.senders.call import CallSender

from .project import project
from .steps import Declared, Row

SIDES = ("dev", "prod")


class Sides:
    """Two environments of one project. `url` is the ledger they share."""

    shows_foreign = True

    def __init__(
        self,
        url: str,
        folder: Path,
        engine: Engine,
        target_of: Callable[[int, TableName, Any], Target],
        prefix: str = "",
    ) -> None:
        self.clock = LateClock()
        self.sent: list[list[tuple[str, str]]] = [[], []]
        self.prefix = prefix
        self.contexts = [
            RunContext(
                project=project(Declared(), self._receiver(side), prefix),
                ledger=Ledger.open(url, self.clock, owner=RecordOwner("p", name)),
                engine=engine,
                target_of=partial(target_of, side),
                code_hash=lambda declared: f"{declared.first_name} {declared.policy.evolve}",
                clock=self.clock,
                holder="elsewhere:1:1",
                root=folder,
                senders={"call": CallSender()},
            )
            for side, name in enumerate(SIDES)
        ]

    def context(self, side: int) -> RunContext:
        return self.contexts[side]

    def declare(self, side: int, declared: Declared) -> None:
        made = project(declared, self._receiver(side), self.prefix)
        self.contexts[side] = replace(self.contexts[side], project=made)

    def pass_time(self) -> None:
        self.clock.pass_an_hour()

    def close(self) -> None:
        for context in self.contexts:
            context.ledger.close()

    def arrive(self, side: int, rows: Sequence[Row]) -> None:
        """Rows of a side's source, which other people write."""
        raise NotImplementedError

    def rows(self, side: int, table: str) -> Counter[Row]:
        """Empty for a table that does not exist yet."""
        raise NotImplementedError

    def commits(self, side: int, task: str) -> int:
        """How many the task's table has seen."""
        return self._target(side, task).published(self._table(side, task), ()).version or 0

    def tokens(self, side: int, task: str) -> list[tuple[str, int]]:
        """Of the task's slices, in the order in which they were first written."""
        held = self._target(side, task).tokens(self._table(side, task), f"twice/p/{task}/")
        return sorted(
            ((name, each.generation) for name, each in held.items()), key=lambda one: held[one[0]].version or 0
        )

    def left(self, side: int, task: str) -> list[str]:
        """What attempts have staged and no reader sees."""
        target: Any = self._target(side, task)
        table = self._table(side, task)
        attempts = cast(Ledger, self.contexts[side].ledger).attempts(task)
        return [name for attempt in attempts for name in target.leftovers(table, attempt.id)]

    def _table(self, side: int, task: str) -> TableName:
        return self.contexts[side].project.task(task).target

    def _target(self, side: int, task: str) -> Target:
        return self.contexts[side].target_of(self._table(side, task), None)

    def _receiver(self, side: int) -> Callable[[PublishedSlice, str], None]:
        def announce(result: PublishedSlice, _key: str) -> None:
            self.sent[side].append((result.task, result.slice))

        return announce
