"""Who made a commit: read from the log's own files, newest first, and by a Spark job where that would take long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from twice.core.table.token import CommitNote
from twice.targets.delta.log.commits import Commits, LocalLogFiles, LogFiles, note_in


class CommitHistory(Commits):
    """The commits of a log, as a session reaches them."""

    def __init__(self, session: SparkSession, path: str) -> None:
        self._session = session
        self._folder = f"{path.rstrip('/')}/_delta_log"
        super().__init__(lambda: _files(session, self._folder))

    def notes(self) -> dict[tuple[str, int], tuple[int, CommitNote]]:
        """By token and generation: the commit that gave it, for every commit the log still has. One Spark job."""
        found: dict[tuple[str, int], tuple[int, CommitNote]] = {}
        for version, note in self._described('"twice'):
            found |= dict.fromkeys(note.generations.items(), (version, note))
        return found

    def mentions(self, text: str) -> list[str]:
        """The lines with this text in them, of every commit still in the log."""
        lines = self._lines()
        return [str(row.value) for row in lines.where(lines["value"].contains(text)).collect()]

    def _search(self, token_name: str, generation: int) -> tuple[int, CommitNote] | None:
        for version, note in reversed(self._described(token_name)):
            if note.generations.get(token_name) == generation:
                return version, note
        return None

    def _described(self, text: str) -> list[tuple[int, CommitNote]]:
        """The commits whose description has this text in it, oldest first, with their notes."""
        lines = self._lines()
        inside = lines["value"].startswith('{"commitInfo"') & lines["value"].contains(json.dumps(text)[1:-1])
        rows = lines.where(inside).selectExpr("value", "_metadata.file_name AS file").collect()
        found = [(int(str(row.file).partition(".")[0]), note_in(row.value)) for row in rows]
        return sorted(((version, note) for version, note in found if note is not None), key=lambda pair: pair[0])

    def _lines(self) -> Any:
        return self._session.read.option("pathGlobFilter", "[0-9]*.json").text(self._folder)


def _files(session: SparkSession, folder: str) -> LogFiles:
    jvm: Any = session._jvm
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    path = jvm.org.apache.hadoop.fs.Path(folder)
    url = urlsplit(str(path.getFileSystem(configuration).makeQualified(path).toUri().toString()))
    if url.scheme == "file":
        return LocalLogFiles(Path(url2pathname(url.path)))
    return _HadoopLogFiles(jvm, configuration, folder)


class _HadoopLogFiles:
    """Of any file system that Hadoop knows."""

    def __init__(self, jvm: Any, configuration: Any, folder: str) -> None:
        self._jvm, self._configuration, self._folder = jvm, configuration, folder

    def text(self, name: str) -> str | None:
        stream = self._open(name)
        if stream is None:
            return None
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def checkpoint(self, version: int) -> tuple[int, dict[str, int]] | None:  # noqa: ARG002 - pyarrow reads local files
        return None

    def first_line(self, name: str) -> str | None:
        stream = self._open(name)
        if stream is None:
            return None
        try:
            reader = self._jvm.java.io.InputStreamReader(stream, "UTF-8")
            return str(self._jvm.java.io.BufferedReader(reader).readLine())
        finally:
            stream.close()

    def _open(self, name: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}")
        try:
            return path.getFileSystem(self._configuration).open(path)
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception.getClass().getName()):
                return None
            raise
