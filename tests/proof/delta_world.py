"""The shop of sequences.py on real Delta tables."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timezone
from pathlib import Path
from typing import Any

from twice.engine.spark import SparkEngine
from twice.ledgers.store import Ledger
from twice.runtime.workshop import Workshop
from twice.wiring.delta import delta_target

from .late_clock import LateClock
from .sequences import Row, project

_SCHEMA = "id bigint, day date, seen timestamp, amount bigint"


class DeltaWorld:
    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder = folder
        self.clock = LateClock()
        engine = SparkEngine(spark)
        self.session = engine.fresh()
        self.shop = Workshop(
            project=project(),
            ledger=Ledger.open(f"sqlite:///{folder}/ledger.db", self.clock),
            engine=engine,
            target_of=lambda table, session: delta_target(session, lambda table: self._path(table.name)),
            code_hash=lambda declared: declared.name,
            clock=self.clock,
            holder="test",
            root=folder,
        )

    def arrive(self, rows: Sequence[Row]) -> None:
        frame = self.session.createDataFrame(list(rows), _SCHEMA)
        frame.write.format("delta").mode("append").partitionBy("day").save(self._path("shop.source"))

    def delete(self, table: str, id_: int) -> None:
        self.session.sql(f"DELETE FROM delta.`{self._path(table)}` WHERE id = {id_}")

    def rows(self, table: str) -> Counter[Row]:
        if not Path(self._path(table)).is_dir():
            return Counter()
        rows = self.session.read.format("delta").load(self._path(table)).select("id", "day", "seen", "amount").collect()
        return Counter((row.id, row.day, row.seen.astimezone(timezone.utc), row.amount) for row in rows)

    def pass_time(self) -> None:
        self.clock.pass_an_hour()

    def _path(self, table: str) -> str:
        return str(self.folder.joinpath("warehouse", *table.split(".")))


@contextmanager
def delta_world(spark: Any) -> Iterator[DeltaWorld]:
    with tempfile.TemporaryDirectory() as folder:
        world = DeltaWorld(spark, Path(folder))
        yield world
        world.shop.ledger.close()
