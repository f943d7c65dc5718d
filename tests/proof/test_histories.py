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
from tests.soak.histories import Place, soak
from tests.soak.long_run import LongRun

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
@pytest.mark.parametrize("number", sample([15, 500], of=[15]))
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


@settings(max_examples=3, derandomize=True, suppress_health_check=list(HealthCheck))
@given(history=steps())
@pytest.mark.timeout(600)
def test_three_histories_on_postgres(postgres: PostgresServer, tmp_path_factory: Any, history: list[Step]) -> None:
    urls = [postgres.fresh_database() for _ in range(3)]
    warehouses = PostgresWarehouses(urls[0], urls[1:], tmp_path_factory.mktemp("histories"))
    play(warehouses, history)
    warehouses.close()


def test_a_soak_whose_jvm_died_stops_and_the_next_one_goes_on_from_what_was_played(
    empty_ledger: Path, tmp_path: Path
) -> None:
    opened = 0

    @contextmanager
    def warehouses() -> Iterator[MemoryWarehouses]:
        nonlocal opened
        opened += 1
        check()
        with memory_warehouses(empty_ledger) as each:
            yield each

    def check() -> None:
        if opened == 4:
            raise ConnectionRefusedError("nobody listens")

    place = Place("the JVM", warehouses, check)
    stopped = soak(LongRun(tmp_path, "none.json", 1, 10, False), 8, place)
    assert stopped is not None
    assert stopped.startswith("stopped after 3 of 8 histories: the JVM died, in a history that is not counted.\n")
    opened = 10
    again = LongRun(tmp_path, "none.json", 1, 10, False)
    assert (again.counts["histories"], again.violations) == (3, [])
    assert soak(again, 8, place) is None
    assert (again.counts["histories"], again.violations) == (8, [])
