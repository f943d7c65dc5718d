"""The histories on real Delta tables."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timezone
from pathlib import Path
from typing import Any

from tests.delta_reader import DeltaVersion
from tests.proof.tables import loose_files, tokens

from twice.core.ports import Target
from twice.core.task import TableName
from twice.engine.spark import SparkEngine
from twice.wiring.delta import delta_target

from .sides import SIDES, Sides
from .steps import Row

_SCHEMA = "id bigint, day date, seen timestamp, amount bigint"


class DeltaWarehouses(Sides):
    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder = folder
        engine = SparkEngine(spark)
        self.session = engine.fresh()
        super().__init__(f"sqlite:///{folder}/ledger.db", folder, engine, self._target_of)

    def arrive(self, side: int, rows: Sequence[Row]) -> None:
        frame = self.session.createDataFrame(list(rows), _SCHEMA)
        frame.write.format("delta").mode("append").partitionBy("day").save(self._path(side, "shop.source"))

    def delete(self, side: int, table: str, id_: int) -> None:
        self.session.sql(f"DELETE FROM delta.`{self._path(side, table)}` WHERE id = {id_}")

    def withdraw(self, side: int, id_: int) -> None:
        self.delete(side, "shop.source", id_)

    def rows(self, side: int, table: str) -> Counter[Row]:
        if not self._exists(side, table):
            return Counter()
        found = DeltaVersion.newest(Path(self._path(side, table))).rows("id", "day", "seen", "amount")
        if found is None:
            rows = self._read(side, table).select("id", "day", "seen", "amount").collect()
            found = [(row.id, row.day, row.seen.astimezone(timezone.utc), row.amount) for row in rows]
        return Counter(found)

    def columns(self, side: int, table: str) -> list[str]:
        if not self._exists(side, table) or self._read(side, table).isEmpty():
            return []
        return list(self._read(side, table).columns)

    def commits(self, side: int, task: str) -> int:
        return len(list(Path(self._path(side, f"shop.{task}"), "_delta_log").glob("*.json")))

    def tokens(self, side: int, task: str) -> list[tuple[str, int]]:
        return tokens(Path(self._path(side, f"shop.{task}")))

    def left(self, side: int, task: str) -> list[str]:
        return loose_files(Path(self._path(side, f"shop.{task}")))

    def _read(self, side: int, table: str) -> Any:
        return self.session.read.format("delta").load(self._path(side, table))

    def _exists(self, side: int, table: str) -> bool:
        return any(Path(self._path(side, table), "_delta_log").glob("*.json"))

    def _path(self, side: int, table: str) -> str:
        return str(self.folder.joinpath(SIDES[side], *table.split(".")))

    def _target_of(self, side: int, _table: TableName, session: Any) -> Target:
        return delta_target(session, lambda table: self._path(side, table.name))


@contextmanager
def delta_warehouses(spark: Any) -> Iterator[DeltaWarehouses]:
    with tempfile.TemporaryDirectory() as folder:
        warehouses = DeltaWarehouses(spark, Path(folder))
        yield warehouses
        warehouses.close()
