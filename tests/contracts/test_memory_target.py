"""The memory target keeps every promise a real one keeps. No JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.contracts.target_suite import TargetSuite

from twice.core.ports import Column, Target
from twice.core.task import TableName
from twice.targets.memory import MemoryTarget, Rows


class MemoryHouse:
    one_slice_only = False
    keeps_versions = True

    def __init__(self) -> None:
        self._target = MemoryTarget()

    def target(self) -> Target:
        return self._target

    def frame(self, target: Target, columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> Rows:
        return Rows(tuple(columns), tuple(rows))

    def rows(self, frame: Rows) -> list[tuple[Any, ...]]:
        return sorted(frame.rows)

    def files(self, table: TableName) -> Mapping[str, str]:
        return dict.fromkeys(self._target.files(table), "")

    def leftovers(self, table: TableName, attempt: str) -> Sequence[str]:
        return self._target.leftovers(table, attempt)


class TestMemoryTarget(TargetSuite):
    @pytest.fixture
    def house(self) -> MemoryHouse:
        return MemoryHouse()
