"""Whatever happens, in whatever order: the tables hold what the rules say."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from twice.core.ports import Column, Shape
from twice.core.slice import WHOLE
from twice.core.task import TableName
from twice.core.token import Note
from twice.core.write import AppendRows, Layout, Plan, ReplaceRows
from twice.engine.plain import PlainEngine
from twice.ledgers.store import Ledger
from twice.runtime.workshop import Workshop
from twice.targets.memory import MemoryTarget, Rows

from .delta_world import delta_world
from .late_clock import LateClock
from .sequences import Row, Step, play, project, steps

COLUMNS = (Column("id", "bigint"), Column("day", "date"), Column("seen", "timestamp"), Column("amount", "bigint"))
SOURCE = TableName("shop.source")


class MemoryWorld:
    def __init__(self, folder: Path) -> None:
        self.target = MemoryTarget()
        self.clock = LateClock()
        self.shop = Workshop(
            project=project(),
            ledger=Ledger.open(f"sqlite:///{folder}/ledger.db", self.clock),
            engine=PlainEngine(),
            target_of=lambda table, session: self.target,
            code_hash=lambda declared: declared.name,
            clock=self.clock,
            holder="test",
            root=folder,
        )
        self.writes = 0

    def arrive(self, rows: Sequence[Row]) -> None:
        self._write(SOURCE, AppendRows((WHOLE,)), rows)

    def delete(self, table: str, id_: int) -> None:
        """Not through twice: without a note."""
        name = TableName(table)
        kept = tuple(row for row in self.target.read(name).rows if row[0] != id_)
        self._write(name, ReplaceRows((WHOLE,)), kept)

    def rows(self, table: str) -> Counter[Row]:
        name = TableName(table)
        exists = self.target.published(name, ()).version is not None
        return Counter(self.target.read(name).rows if exists else ())

    def pass_time(self) -> None:
        self.clock.pass_an_hour()

    def _write(self, table: TableName, verb: Any, rows: Sequence[Row]) -> None:
        self.target.prepare(table, Shape(COLUMNS), Layout(any_partitions=True), False)
        self.writes += 1
        app = f"other/{self.writes}"
        plan = Plan(verb, (WHOLE,), (app,))
        staged = self.target.stage(table, Rows(COLUMNS, tuple(rows)), plan, f"other-{self.writes}")
        self.target.commit(staged, {app: 0}, Note("other", "run", {app: 1}))


@pytest.fixture(scope="module")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    return path


@contextmanager
def memory_world(empty_ledger: Path) -> Iterator[MemoryWorld]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(empty_ledger, Path(folder) / "ledger.db")
        world = MemoryWorld(Path(folder))
        yield world
        world.shop.ledger.close()


@settings(max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck))
@given(history=steps())
@pytest.mark.timeout(600)
def test_two_hundred_histories_on_the_memory_target(empty_ledger: Path, history: list[Step]) -> None:
    with memory_world(empty_ledger) as world:
        play(world, history)


@settings(max_examples=3, derandomize=True, suppress_health_check=list(HealthCheck))
@given(history=steps())
@pytest.mark.timeout(600)
def test_three_histories_on_delta(spark: Any, history: list[Step]) -> None:
    with delta_world(spark) as world:
        play(world, history)
