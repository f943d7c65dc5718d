"""Whatever happens, in whatever order: the tables hold what the rules say, and what was to be sent went out once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.postgres_server import PostgresServer
from tests.proof.histories.delta_warehouses import delta_warehouses
from tests.proof.histories.memory_warehouses import MemoryWarehouses
from tests.proof.histories.play import play
from tests.proof.histories.postgres_warehouses import PostgresWarehouses
from tests.proof.histories.steps import Step, steps
from tests.sample import sample

from twice.ledgers.ledger import Ledger


@pytest.fixture(scope="module")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    return path


@contextmanager
def memory_warehouses(empty_ledger: Path) -> Iterator[MemoryWarehouses]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(empty_ledger, Path(folder) / "ledger.db")
        warehouses = MemoryWarehouses(Path(folder))
        yield warehouses
        warehouses.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", sample([50, 500], of=[50]))
def test_many_histories_on_the_memory_target(empty_ledger: Path, number: int) -> None:
    @settings(max_examples=number, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(history=steps())
    def each(history: list[Step]) -> None:
        with memory_warehouses(empty_ledger) as warehouses:
            play(warehouses, history)

    each()


@settings(max_examples=3, derandomize=True, suppress_health_check=list(HealthCheck))
@given(history=steps())
@pytest.mark.timeout(600)
def test_three_histories_on_delta(spark: Any, history: list[Step]) -> None:
    with delta_warehouses(spark) as warehouses:
        play(warehouses, history)


@settings(max_examples=10, derandomize=True, suppress_health_check=list(HealthCheck))
@given(history=steps())
@pytest.mark.timeout(600)
def test_ten_histories_on_postgres(postgres: PostgresServer, tmp_path_factory: Any, history: list[Step]) -> None:
    urls = [postgres.fresh_database() for _ in range(3)]
    warehouses = PostgresWarehouses(urls[0], urls[1:], tmp_path_factory.mktemp("histories"))
    play(warehouses, history)
    warehouses.close()
