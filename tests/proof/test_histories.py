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
from tests.proof.histories.steps import EVERY, INCREMENTAL, Arrive, Recut, Rename, Run, Step, TakeOver, steps
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


ARRIVED = Arrive(0, ((1, 0, 5, 0), (2, 1, 6, 0), (3, 2, 7, 0), (3, 0, 7, 1)))


def runs_of(task: str) -> list[Step]:
    return [Run(0, task, day) for day in range(3)]


@pytest.mark.parametrize("task", [task for task in EVERY if task not in INCREMENTAL])
def test_a_task_that_is_cut_by_months_and_by_days_again(empty_ledger: Path, task: str) -> None:
    """What a month has written over is computed again by its day; `append_once` refuses the months."""
    by_months: list[Step] = [Recut(0, task, True), Run(0, task, 0), Run(0, task, 1)]
    with memory_warehouses(empty_ledger) as warehouses:
        play(warehouses, [ARRIVED, *runs_of(task), *by_months, Recut(0, task, False), *runs_of(task), *runs_of(task)])


@pytest.mark.parametrize("cut", [(), (True,)], ids=["by days", "by months"])
@pytest.mark.parametrize("task", EVERY)
def test_a_table_that_another_task_takes_over_and_the_first_one_takes_back(
    empty_ledger: Path, task: str, cut: tuple[bool, ...]
) -> None:
    """Whoever does not have the table is refused; who gets it back computes again what it had published there."""
    by_the_other: list[Step] = [Rename(0, task, True), Run(0, task, 0), TakeOver(0, task, True)]
    by_the_other += [Recut(0, task, monthly) for monthly in cut if task not in INCREMENTAL]
    back: list[Step] = [Recut(0, task, False)] if cut and task not in INCREMENTAL else []
    back += [Rename(0, task, False), Run(0, task, 0), TakeOver(0, task, False), TakeOver(0, task, False)]
    with memory_warehouses(empty_ledger) as warehouses:
        play(warehouses, [ARRIVED, *runs_of(task), *by_the_other, *runs_of(task), *back, *runs_of(task)])


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
@pytest.mark.long
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
