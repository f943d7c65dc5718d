"""One table as one attempt works on it: the run's session, the table's folder and its files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from pyspark.sql import SparkSession

from twice.core.task import TableName
from twice.targets.delta.lock import Waiting, locked
from twice.targets.delta.log.log import Log
from twice.targets.instruments import Instruments

_LOG = "_delta_log"
_DROPPED = "_twice_dropped"
"""What the log of a table is called that is being removed: readers pass over it, and see no table."""


@dataclass(frozen=True)
class TableHandle:
    """`waiting`: what is done while another commits on a local file system (None: a word now and then)."""

    session: SparkSession
    name: TableName
    path: str
    instruments: Instruments
    waiting: Waiting | None = None

    @property
    def log(self) -> Log:
        return Log(self.session, self.path)

    def locked(self) -> AbstractContextManager[None]:
        return locked(self.session._jvm, self.path, self.waiting)

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """The bytes of those of these files (named as the log names them) that are there.

        On this machine's disk each is asked for by itself, 5,000 in 30 ms. Elsewhere a folder is listed once: a store
        takes as long for one file as for a thousand.
        """
        root = self.local
        if root is None:
            return self._listed(paths)
        found = {}
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                found[path] = (root / unquote(urlsplit(path).path)).stat().st_size
        return found

    @cached_property
    def local(self) -> Path | None:
        """The table's folder, if it is one of this machine."""
        jvm: Any = self.session._jvm
        url = urlsplit(str(self._files().makeQualified(jvm.org.apache.hadoop.fs.Path(self.path)).toUri().toString()))
        return Path(url2pathname(url.path)) if url.scheme == "file" else None

    def _listed(self, paths: Iterable[str]) -> dict[str, int]:
        files, places = self._files(), {path: self._at(path) for path in paths}
        found: dict[tuple[str, str], int] = {}
        for folder in {str(place.getParent().toString()): place.getParent() for place in places.values()}.values():
            if files.exists(folder):
                for status in files.listStatus(folder):
                    found[str(folder.toString()), str(status.getPath().getName())] = int(status.getLen())
        keys = {path: (str(place.getParent().toString()), str(place.getName())) for path, place in places.items()}
        return {path: found[key] for path, key in keys.items() if key in found}

    def delete(self, paths: Iterable[str]) -> None:
        """Delete data files that no version refers to. Dying here leaves the rest to VACUUM, and so does a file system
        that refuses: a commit that landed stays landed."""
        with suppress(Exception):
            files = self._files()
            for path in paths:
                files.delete(self._at(path), False)

    def copy_from(self, other: TableHandle, source: str, path: str) -> None:
        """A file of another table's folder (both named as the logs name them), where there are no links."""
        jvm: Any = self.session._jvm
        conf = self.session._jsparkSession.sessionState().newHadoopConf()
        jvm.org.apache.hadoop.fs.FileUtil.copy(
            other._files(), other._at(source), self._files(), self._at(path), False, True, conf
        )

    def remove(self) -> None:
        """The whole folder. Its log goes first, by one rename: dying here leaves a whole table, or files that
        `remove_rest` knows by the log that lies among them under another name."""
        files, location = self._files(), self._location
        files.delete(location(self.path, _DROPPED), True)
        if not files.rename(location(self.path, _LOG), location(self.path, _DROPPED)):
            raise OSError(f"{self.path}/{_LOG} could not be renamed")
        self.remove_rest()

    def remove_rest(self) -> None:
        """What a `remove` that died has left; nothing of any other folder. The log that was put away goes last."""
        files, location, jvm = self._files(), self._location, self.session._jvm
        assert jvm is not None
        if not files.exists(location(self.path, _DROPPED)):
            return
        for each in files.listStatus(location(self.path)):
            if each.getPath().getName() != _DROPPED:
                files.delete(each.getPath(), True)
        files.delete(location(self.path), True)
        jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(self.session._jsparkSession, location(self.path))

    @property
    def _location(self) -> Any:
        jvm: Any = self.session._jvm
        return jvm.org.apache.hadoop.fs.Path

    def _files(self) -> Any:
        jvm: Any = self.session._jvm
        root = jvm.org.apache.hadoop.fs.Path(self.path)
        return root.getFileSystem(self.session._jsparkSession.sessionState().newHadoopConf())

    def _at(self, path: str) -> Any:
        """The log writes paths as URIs, relative to the table."""
        jvm: Any = self.session._jvm
        location = jvm.org.apache.hadoop.fs.Path
        return location(location(self.path), location(jvm.java.net.URI(path)))
