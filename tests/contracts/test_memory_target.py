"""The memory target keeps every promise a real one keeps. No JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.contracts.append_suite import AppendSuite
from tests.contracts.exchange_suite import ExchangeSuite
from tests.contracts.target_suite import Row, TargetSuite, ordered
from tests.contracts.upsert_suite import UpsertSuite

from twice.core.ports import Column, Target
from twice.core.task import TableName
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget


class MemoryHarness:
    one_slice_only = False
    keeps_versions = True
    nested = True
    appends = True

    def __init__(self) -> None:
        self._target = MemoryTarget()

    def target(self) -> Target:
        return self._target

    def frame(self, target: Target, columns: Sequence[Column], rows: Sequence[Row], parts: int = 0) -> Rows:
        return Rows(tuple(columns), tuple(rows))

    def rows(self, frame: Rows) -> list[Row]:
        return ordered(frame.rows)

    def seen(self, target: Target, table: TableName) -> list[Row]:
        return self.rows(target.read(table))

    def files(self, table: TableName) -> Mapping[str, str]:
        return dict.fromkeys(self._target.files(table), "")

    def leftovers(self, table: TableName, attempt: str) -> Sequence[str]:
        return self._target.leftovers(table, attempt)

    def drop(self, table: TableName) -> None:
        self._target._tables.pop(table.name)


class TestMemoryTarget(TargetSuite, UpsertSuite, AppendSuite, ExchangeSuite):
    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness()
