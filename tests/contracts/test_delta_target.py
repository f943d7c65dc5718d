"""Delta keeps every promise, by the internal path and by the public one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.delta_house import DeltaHouse
from tests.contracts.target_suite import TargetSuite


class TestDeltaInternal(TargetSuite):
    @pytest.fixture
    def house(self, spark: Any, tmp_path: Path) -> DeltaHouse:
        return DeltaHouse(spark, tmp_path, internal=True)


class TestDeltaPublic(TargetSuite):
    @pytest.fixture
    def house(self, spark: Any, tmp_path: Path) -> DeltaHouse:
        return DeltaHouse(spark, tmp_path, internal=False)
