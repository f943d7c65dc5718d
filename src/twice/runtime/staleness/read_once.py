"""A ledger for one answer about many tasks: what it has of a task is read once, also where several tasks read from that
one. It is as it was when it was first asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

from twice.core.ledger.record import PublishRecord, RunRecord
from twice.core.ports import RunLedger


def reading_once(ledger: RunLedger) -> RunLedger:
    """The same ledger, for reading alone."""
    return cast(RunLedger, _ReadOnce(ledger))


class _ReadOnce:
    """What is read whole, by task; everything else is asked of the ledger."""

    def __init__(self, ledger: RunLedger) -> None:
        self._ledger = ledger
        self._all: tuple[RunRecord, ...] | None = None
        self._runs: dict[str, tuple[RunRecord, ...]] = {}
        self._publishers: dict[str, Mapping[str, int]] = {}
        self._publishes: dict[str, tuple[PublishRecord, ...]] = {}

    def runs(self, task: str | None = None) -> tuple[RunRecord, ...]:
        if task is None:
            if self._all is None:
                self._all = self._ledger.runs()
                of_task: dict[str, list[RunRecord]] = defaultdict(list)
                for run in self._all:
                    of_task[run.task].append(run)
                self._runs |= {name: tuple(runs) for name, runs in of_task.items()}
            return self._all
        if task not in self._runs:
            self._runs[task] = () if self._all is not None else self._ledger.runs(task)
        return self._runs[task]

    def publishers(self, task: str) -> Mapping[str, int]:
        if task not in self._publishers:
            self._publishers[task] = self._ledger.publishers(task)
        return self._publishers[task]

    def publishes(self, task: str) -> tuple[PublishRecord, ...]:
        if task not in self._publishes:
            self._publishes[task] = self._ledger.publishes(task)
        return self._publishes[task]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)
