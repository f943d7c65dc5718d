"""The histories without a JVM: plain rows, in memory or in PostgreSQL, from a source in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twice.core.ports import Shape, Target
from twice.core.slice import WHOLE
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, WritePlan
from twice.engine.plain import PlainEngine
from twice.targets.memory.rows import Rows
from twice.targets.memory.target import MemoryTarget

from .project import COLUMNS
from .sides import Sides
from .steps import Row

SOURCE = TableName("shop.source")


class Sources:
    """A side's source, in memory. Other people write it: without twice's notes."""

    def __init__(self) -> None:
        self.target = MemoryTarget()
        self.writes = 0

    def append(self, rows: Sequence[Row]) -> None:
        into = self.target.prepare(SOURCE, Shape(COLUMNS), Layout(any_partitions=True), False)
        self.writes += 1
        app = f"other/{self.writes}"
        plan = WritePlan(AppendRows((WHOLE,)), (WHOLE,), (app,))
        staged = self.target.stage(SOURCE, Rows(COLUMNS, tuple(rows)), plan, f"other-{self.writes}", into=into)
        self.target.commit(staged, {app: 0}, CommitNote("other", "run", {app: 1}))

    def delete(self, table: str, id_: int) -> None:
        """A version without these rows, and without a note of twice."""
        held = self.target._tables[table]
        latest = held.versions[-1]
        files = tuple(
            replace(file, name=f"{file.name}-theirs", rows=tuple(row for row in file.rows if row[0] != id_))
            for file in latest.files
        )
        held.versions.append(replace(latest, files=files, note=None))


class MemoryWarehouses(Sides):
    def __init__(self, folder: Path) -> None:
        self.sides = [Sources(), Sources()]
        super().__init__(f"sqlite:///{folder}/ledger.db", folder, PlainEngine(), self._target_of)

    def arrive(self, side: int, rows: Sequence[Row]) -> None:
        self.sides[side].append(rows)

    def delete(self, side: int, table: str, id_: int) -> None:
        self.sides[side].delete(table, id_)

    def withdraw(self, side: int, id_: int) -> None:
        self.sides[side].delete(SOURCE.name, id_)

    def rows(self, side: int, table: str) -> Counter[Row]:
        name, target = TableName(table), self.sides[side].target
        exists = target.published(name, ()).version is not None
        return Counter(target.read(name).rows if exists else ())

    def columns(self, side: int, table: str) -> list[str]:
        name, target = TableName(table), self.sides[side].target
        if not self.rows(side, table):
            return []
        return [column.name for column in target.read(name).columns]

    def _target_of(self, side: int, _table: TableName, _session: Any) -> Target:
        return self.sides[side].target
