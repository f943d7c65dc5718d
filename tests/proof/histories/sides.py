"""What the histories have on every target: two sides on one ledger, and a list of what went out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tests.proof.histories.late_clock import LateClock

from twice import PublishedSlice
from twice.core.ledger.record_owner import RecordOwner
from twice.core.ports import Engine, Target
from twice.core.task import TableName
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.senders.call import CallSender

from .project import project
from .steps import START

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
                project=project(START, self._receiver(side), prefix),
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

    def declare(self, initial: datetime) -> None:
        self.contexts = [
            replace(context, project=project(initial, self._receiver(side), self.prefix))
            for side, context in enumerate(self.contexts)
        ]

    def pass_time(self) -> None:
        self.clock.pass_an_hour()

    def close(self) -> None:
        for context in self.contexts:
            context.ledger.close()

    def _receiver(self, side: int) -> Callable[[PublishedSlice, str], None]:
        def announce(result: PublishedSlice, _key: str) -> None:
            self.sent[side].append((result.task, result.slice))

        return announce
