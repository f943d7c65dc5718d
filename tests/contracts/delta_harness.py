"""How the suite, and the tests of Delta's own fences, reach a Delta target."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tests.contracts.asked_twice import asked_twice
from tests.contracts.spark_frames import collected, frame_of
from tests.contracts.target_suite import Row, ordered
from tests.delta_reader import DeltaVersion

from twice.core.ports import Column, Target
from twice.core.task import TableName
from twice.targets.delta.reader import DeltaReader

STAGE = "_twice/stage"
UNUSUAL = (
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
)
"""What takes a table from our own commits to Delta's public calls."""


class DeltaHarness:
    keeps_versions = True
    nested = True

    def __init__(self, spark: Any, root: Path, internal: bool) -> None:
        self._spark = spark
        self._root = root
        self._internal = internal
        self.one_slice_only = not internal
        self.appends = internal

    def target(self) -> Target:
        from twice.engine.session.session import run_session
        from twice.wiring.delta import delta_target

        target = delta_target(run_session(self._spark), self.locate, internal=self._internal)
        return asked_twice(target, lambda: nullcontext(DeltaReader(self.locate)))

    def locate(self, table: TableName) -> str:
        return str(self._root / table.name.replace(".", "/"))

    def frame(self, target: Any, columns: Sequence[Column], rows: Sequence[Row], parts: int = 0) -> Any:
        return frame_of(target._session, columns, rows, parts)

    def rows(self, frame: Any) -> list[Row]:
        return collected(frame)

    def seen(self, target: Target, table: TableName) -> list[Row]:
        place = Path(self.locate(table))
        found = DeltaVersion.newest(place).rows() if (place / "_delta_log").exists() else None
        return self.rows(target.read(table)) if found is None else ordered(found)

    def files(self, table: TableName) -> Mapping[str, str]:
        paths = DeltaVersion.newest(Path(self.locate(table))).paths()
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    def leftovers(self, table: TableName, attempt: str) -> Sequence[str]:
        root = Path(self.locate(table))
        named = {str(path) for path in root.rglob(f"twice-{attempt}-*")}
        copied = {str(path) for path in (root / STAGE / attempt).rglob("*") if path.is_file()}
        return sorted((named | copied) - set(self.files(table)))

    def drop(self, table: TableName) -> None:
        shutil.rmtree(self.locate(table))
        self._spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # another process has none
