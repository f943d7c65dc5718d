"""What a Delta table's log says, read by Python's own library: no JVM is started for it.

Only what this module is sure to understand is answered: the newest commit with the checksum file that Delta writes
beside it, and the commits before it that are still in the log. For everything else it raises NeedsEngine, and the same
question is asked of Delta itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from twice.core.ports import Foreign, Held, NeedsEngine, Published, Touched
from twice.core.slice import Slice
from twice.core.table.owner import Ownership, ownership
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.targets.delta.log.changes import foreign_changes, touched_rows
from twice.targets.delta.log.commits import Commits, LocalLogFiles, note_in
from twice.targets.delta.log.table import FEATURES, Table, table_of

_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_READABLE = FEATURES | {"columnMapping", "changeDataFeed", "generatedColumns", "identityColumns"}
"""What changes nothing about how a commit lists its files, their partitions and whether they change data."""
_MOST = 5_000
"""So many commits are read to learn who made them; more is a question for Spark."""


class DeltaReader:
    """The part of `core.ports.Target` that a look needs, on tables in folders of this machine. Whatever else is asked
    of it needs an engine. Each table is read once, when it is first asked for: its answers agree with each other."""

    def __init__(self, locate: Callable[[TableName], str]) -> None:
        self._locate = locate
        self._read: dict[str, _NewestCommit] = {}

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        look = self._look(table)
        names = dict.fromkeys(token_names, 0)
        owners = look.owners if names else Ownership()
        generations = {name: look.tokens.get(name, 0) for name in names}
        return Published(look.table.version, generations, owners, look.table.id)

    def tokens(self, table: TableName, prefix: str) -> Mapping[str, Held]:
        look = self._look(table)
        wrote = look.notes
        return {
            name: Held(generation, *wrote.get((name, generation), (None, None)))
            for name, generation in sorted(look.tokens.items())
            if name.startswith(prefix)
        }

    def provenance(
        self, table: TableName, token_name: str, generation: int, at: int | None = None
    ) -> CommitNote | None:
        look = self._look(table)
        found = None if at is None else look.commits.at(at, token_name, generation)
        found = found or look.commits.find(token_name, generation, look.table.version)
        return None if found is None else replace(found[1], version=found[0])

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        look = self._look(table)
        return foreign_changes(look.commits, look.table, since, slices)

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:
        look = self._look(table)
        return touched_rows(look.commits, f"file:{look.folder}", look.table, since, column)

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsEngine(f"{name} of a Delta table")

    def _look(self, table: TableName) -> _NewestCommit:
        place = self._locate(table)
        if place not in self._read:
            self._read[place] = self._newest_commit(table, Path(place))
        return self._read[place]

    def _newest_commit(self, table: TableName, folder: Path) -> _NewestCommit:
        newest = _newest(folder / "_delta_log")
        commits = Commits(lambda: _KeptLogFiles(folder / "_delta_log"))
        checksum = commits.checksum(newest)
        tokens = commits.tokens_at(newest)
        if tokens is None:
            raise NeedsEngine(f"neither checksum file nor checkpoint of {table} lists its tokens")
        return _NewestCommit(folder, commits, _table(table, newest, checksum), tokens)


class _KeptLogFiles(LocalLogFiles):
    """A commit and its checksum never change, and are asked for by each slice."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._first: dict[str, str | None] = {}
        self._checksums: dict[str, str | None] = {}

    def text(self, name: str) -> str | None:
        if not name.endswith(".crc"):
            return super().text(name)
        if name not in self._checksums:
            self._checksums[name] = super().text(name)
        return self._checksums[name]

    def first_line(self, name: str) -> str | None:
        if name not in self._first:
            self._first[name] = super().first_line(name)
        return self._first[name]


class _NewestCommit:
    """One table at its newest commit."""

    def __init__(self, folder: Path, commits: Commits, table: Table, tokens: Mapping[str, int]) -> None:
        self.folder, self.commits, self.table, self.tokens = folder, commits, table, tokens

    @cached_property
    def owners(self) -> Ownership:
        return ownership(self.tokens)

    @cached_property
    def notes(self) -> dict[tuple[str, int], tuple[int, CommitNote]]:
        """By token and generation: the commit that gave it, for every commit the log still has."""
        if self.table.version > _MOST:
            raise NeedsEngine("the log has too many commits to read them one by one")
        found: dict[tuple[str, int], tuple[int, CommitNote]] = {}
        for version in range(self.table.version + 1):
            line = self.commits.first_line(version)
            note = None if line is None else note_in(line)
            if note is not None:
                found |= dict.fromkeys(note.generations.items(), (version, note))
        return found


def _newest(log: Path) -> int:
    try:
        versions = [int(found[1]) for name in os.listdir(log) if (found := _COMMIT.fullmatch(name))]  # noqa: PTH208 - names alone, of thousands
    except FileNotFoundError:
        versions = []
    if not versions:
        raise NeedsEngine(f"{log} has no commit")
    return max(versions)


def _table(name: TableName, version: int, checksum: Mapping[str, Any]) -> Table:
    try:
        protocol, metadata = checksum["protocol"], checksum["metadata"]
        found = table_of(version, json.dumps({"protocol": protocol}), json.dumps({"metaData": metadata}))
    except (KeyError, TypeError, ValueError) as error:
        raise NeedsEngine(f"the checksum file of {name} does not say what the table is") from error
    unknown = sorted(found.features - _READABLE)
    if unknown:
        raise NeedsEngine(f"{name} uses the feature {unknown[0]}")
    return found
