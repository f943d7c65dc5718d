"""Where one attempt works: the run's session, one table's folder, and what is lent to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession

from twice.core.task import TableName
from twice.targets.delta.internal import Log
from twice.targets.delta.lock import locked

Hashes = Callable[[DataFrame], tuple[SparkColumn, SparkColumn]]


@dataclass(frozen=True)
class Instruments:
    """Lent by whoever picks the engine: a target does not know it.

    `row_hashes`: two independent 64-bit hashes of a row's content, as expressions on a frame's columns.
    `totalled`: a frame as it is, and the sums of some numbers of its rows, to be read once it is written.
    """

    row_hashes: Hashes
    totalled: Callable[..., tuple[DataFrame, Callable[[], tuple[int, ...]]]]


@dataclass(frozen=True)
class Site:
    """`wait` is how long, in seconds, another's commit is waited for on a local file system."""

    session: SparkSession
    name: TableName
    path: str
    instruments: Instruments
    wait: float

    @property
    def log(self) -> Log:
        return Log(self.session, self.path)

    def locked(self) -> AbstractContextManager[None]:
        return locked(self.session._jvm, self.path, self.wait)

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of these files (named as the log names them) that are not there."""
        files = self._files()
        return [path for path in paths if not files.exists(self._at(path))]

    def delete(self, paths: Iterable[str]) -> None:
        """Delete data files that no version refers to. Dying here leaves the rest to VACUUM."""
        files = self._files()
        for path in paths:
            files.delete(self._at(path), False)

    def _files(self) -> Any:
        jvm: Any = self.session._jvm
        root = jvm.org.apache.hadoop.fs.Path(self.path)
        return root.getFileSystem(self.session._jsparkSession.sessionState().newHadoopConf())

    def _at(self, path: str) -> Any:
        """The log writes paths as URIs, relative to the table."""
        jvm: Any = self.session._jvm
        location = jvm.org.apache.hadoop.fs.Path
        return location(location(self.path), location(jvm.java.net.URI(path)))
