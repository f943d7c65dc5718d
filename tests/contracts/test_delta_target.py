"""Delta keeps every promise, by the internal path and by the public one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.append_suite import AppendSuite
from tests.contracts.delta_harness import DeltaHarness
from tests.contracts.target_suite import TargetSuite
from tests.contracts.upsert_suite import UpsertSuite


class TestDeltaInternal(TargetSuite, UpsertSuite, AppendSuite):
    @pytest.fixture
    def harness(self, spark: Any, tmp_path: Path) -> DeltaHarness:
        return DeltaHarness(spark, tmp_path, internal=True)


class TestDeltaPublic(TargetSuite, UpsertSuite, AppendSuite):
    @pytest.fixture
    def harness(self, spark: Any, tmp_path: Path) -> DeltaHarness:
        return DeltaHarness(spark, tmp_path, internal=False)
