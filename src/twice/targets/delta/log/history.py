"""Who made a commit: read from the log's own files, newest first."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from twice.core.table.token import CommitNote

RECENT = 100
"""So many commits are read one by one (a millisecond each); what is older is searched by one Spark job."""


class CommitHistory:
    """The commits a table's log still has. `_delta_log/<version>.json` is Delta's published format."""

    def __init__(self, session: SparkSession, path: str) -> None:
        self._session = session
        self._jvm: Any = session._jvm
        self._configuration = session._jsparkSession.sessionState().newHadoopConf()
        self._folder = f"{path.rstrip('/')}/_delta_log"

    def at(self, version: int, token_name: str, generation: int) -> tuple[int, CommitNote] | None:
        """This version's commit, if it gave this token this generation."""
        line = self.first_line(version)
        note = None if line is None else note_in(line)
        return None if note is None or note.generations.get(token_name) != generation else (version, note)

    def find(self, token_name: str, generation: int, newest: int, oldest: int = 0) -> tuple[int, CommitNote] | None:
        """The commit between these versions that gave this token this generation."""
        for version in range(newest, max(newest - RECENT, oldest - 1), -1):
            line = self.first_line(version)
            if line is None:
                return None  # cleaned up, and everything before it too
            note = note_in(line)
            if note is not None and note.generations.get(token_name) == generation:
                return version, note
        return self._search(token_name, generation) if newest - RECENT >= oldest else None

    def notes(self) -> dict[tuple[str, int], tuple[int, CommitNote]]:
        """By token and generation: the commit that gave it, for every commit the log still has. One Spark job."""
        found: dict[tuple[str, int], tuple[int, CommitNote]] = {}
        for version, note in self._described('"twice'):
            found |= dict.fromkeys(note.generations.items(), (version, note))
        return found

    def actions(self, version: int) -> list[dict[str, Any]] | None:
        """Everything one commit did; None if the log forgot it."""
        text = self._text(f"{version:020d}.json")
        # Not splitlines(): to Python U+2028 ends a line too, and Delta writes it as it is.
        return None if text is None else [json.loads(line) for line in text.split("\n") if line]

    def mentions(self, text: str) -> list[str]:
        """The lines with this text in them, of every commit still in the log."""
        lines = self._lines()
        return [str(row.value) for row in lines.where(lines["value"].contains(text)).collect()]

    def tokens_at(self, version: int) -> dict[str, int] | None:
        """Every token as of a version, from the checksum file Delta writes beside its commit; None if it does not say.

        Delta's snapshot answers the same by a Spark job over the whole log (over a second for a small table, and again
        after each commit). The file is believed only if it belongs to the very commit that is in the log.
        """
        checksum = self._checksum(version)
        try:
            return {token["appId"]: int(token["version"]) for token in checksum["setTransactions"]}
        except (ValueError, KeyError, TypeError):
            return None

    def files_at(self, version: int) -> list[dict[str, Any]] | None:
        """Every file of a version, as Delta lists them in the same checksum file for tables that are not large; None
        if it does not, or if the list is not whole by the file's own counts."""
        checksum = self._checksum(version)
        try:
            files: list[dict[str, Any]] = checksum["allFiles"]
            whole = len(files) == checksum["numFiles"], sum(f["size"] for f in files) == checksum["tableSizeBytes"]
            return files if all(whole) else None
        except (KeyError, TypeError):
            return None

    def _checksum(self, version: int) -> dict[str, Any]:
        """Empty unless it belongs to the very commit that is in the log."""
        text, line = self._text(f"{version:020d}.crc"), self.first_line(version)
        try:
            checksum: dict[str, Any] = json.loads(text or "")
            same = checksum["txnId"] == json.loads(line or "")["commitInfo"]["txnId"]
        except (ValueError, KeyError, TypeError):
            return {}
        return checksum if same else {}

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

    def first_line(self, version: int) -> str | None:
        """Delta writes the commit's own description first. None if the log forgot the commit."""
        if self._local is not None:
            try:
                with (self._local / f"{version:020d}.json").open(encoding="utf-8") as lines:
                    return lines.readline()
            except FileNotFoundError:
                return None
        stream = self._open(f"{version:020d}.json")
        if stream is None:
            return None
        try:
            reader = self._jvm.java.io.InputStreamReader(stream, "UTF-8")
            return str(self._jvm.java.io.BufferedReader(reader).readLine())
        finally:
            stream.close()

    @cached_property
    def _local(self) -> Path | None:
        """The log's folder, if it is one of this machine: read without the JVM, a commit takes a tenth of the time."""
        folder = self._jvm.org.apache.hadoop.fs.Path(self._folder)
        url = urlsplit(str(folder.getFileSystem(self._configuration).makeQualified(folder).toUri().toString()))
        return Path(url2pathname(url.path)) if url.scheme == "file" else None

    def _text(self, name: str) -> str | None:
        if self._local is not None:
            try:
                return (self._local / name).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None
        stream = self._open(name)
        if stream is None:
            return None
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
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


def note_in(line: str) -> CommitNote | None:
    """The note of a commit, by its first line; None if it is not ours."""
    try:
        return CommitNote.from_json(json.loads(line)["commitInfo"].get("userMetadata"))
    except (ValueError, KeyError, AttributeError):
        return None
