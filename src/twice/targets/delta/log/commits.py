"""What a log's own files say, commit by commit: no session is needed for it, nor any job."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from twice.core.ports import NeedsEngine
from twice.core.table.token import CommitNote
from twice.targets.delta.log.checkpoint import checkpoint_tokens, newest_checkpoint
from twice.targets.delta.log.table import FORGETS_TOKENS

RECENT = 100
"""So many commits are read one by one (a millisecond each) to find one; what is older is searched by one Spark job."""


class LogFiles(Protocol):
    """The files of a table's `_delta_log`, by their names."""

    def text(self, name: str) -> str | None:
        """None if there is no such file."""

    def first_line(self, name: str) -> str | None:
        """None if there is no such file."""

    def checkpoint(self, version: int) -> tuple[int, dict[str, int]] | None:
        """The newest checkpoint that is not newer than a version, and its tokens; None if it cannot be read here."""


class LocalLogFiles:
    """Of a folder on this machine: read without the JVM, a commit takes a tenth of the time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def text(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def first_line(self, name: str) -> str | None:
        try:
            with (self._folder / name).open(encoding="utf-8") as lines:
                return lines.readline()
        except FileNotFoundError:
            return None

    def checkpoint(self, version: int) -> tuple[int, dict[str, int]] | None:
        found = newest_checkpoint(self._folder, version)
        tokens = None if found is None or version - found > RECENT else checkpoint_tokens(self._folder, found)
        return None if found is None or tokens is None else (found, tokens)


class Commits:
    """The commits a table's log still has. `_delta_log/<version>.json` is Delta's published format."""

    def __init__(self, files: Callable[[], LogFiles]) -> None:
        self._open_files = files

    @cached_property
    def _files(self) -> LogFiles:
        return self._open_files()

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

    def actions(self, version: int) -> list[dict[str, Any]] | None:
        """Everything one commit did; None if the log forgot it."""
        text = self._files.text(f"{version:020d}.json")
        # Not splitlines(): to Python U+2028 ends a line too, and Delta writes it as it is.
        return None if text is None else [json.loads(line) for line in text.split("\n") if line]

    def tokens_at(self, version: int) -> dict[str, int] | None:
        """Every token as of a version, from the checksum file Delta writes beside its commit, or, where they are too
        many for it, from the checkpoint before it and the commits since; None if these do not say.

        Delta's snapshot answers the same by a Spark job over the whole log (over a second for a small table, and again
        after each commit). The file is believed only if it belongs to the very commit that is in the log.
        """
        checksum = self.checksum(version)
        listed = tokens_of(checksum)
        # Only beside a checksum file that is the commit's own: it says that the log is as Delta has left it.
        return self._replayed(version) if listed is None and checksum else listed

    def _replayed(self, version: int) -> dict[str, int] | None:
        held = self._files.checkpoint(version)
        if held is None:
            return None
        checkpoint, tokens = held
        for each in range(checkpoint + 1, version + 1):
            actions = self.actions(each)
            if actions is None:
                return None  # cleaned up meanwhile, with the checkpoint
            for action in actions:
                if FORGETS_TOKENS in action.get("metaData", {}).get("configuration", {}):
                    return None
                if "txn" in action:
                    tokens[action["txn"]["appId"]] = int(action["txn"]["version"])
        return tokens

    def files_at(self, version: int) -> list[dict[str, Any]] | None:
        """Every file of a version, as Delta lists them in the same checksum file for tables that are not large; None
        if it does not, or if the list is not whole by the file's own counts."""
        checksum = self.checksum(version)
        try:
            files: list[dict[str, Any]] = checksum["allFiles"]
            whole = len(files) == checksum["numFiles"], sum(f["size"] for f in files) == checksum["tableSizeBytes"]
            return files if all(whole) else None
        except (KeyError, TypeError):
            return None

    def first_line(self, version: int) -> str | None:
        """Delta writes the commit's own description first. None if the log forgot the commit."""
        return self._files.first_line(f"{version:020d}.json")

    def checksum(self, version: int) -> dict[str, Any]:
        """Empty unless it belongs to the very commit that is in the log."""
        text, line = self._files.text(f"{version:020d}.crc"), self.first_line(version)
        try:
            checksum: dict[str, Any] = json.loads(text or "")
            same = checksum["txnId"] == json.loads(line or "")["commitInfo"]["txnId"]
        except (ValueError, KeyError, TypeError):
            return {}
        return checksum if same else {}

    def _search(self, token_name: str, generation: int) -> tuple[int, CommitNote] | None:
        raise NeedsEngine(f"the commit that gave {token_name} generation {generation} is not among the newest {RECENT}")


def tokens_of(checksum: dict[str, Any]) -> dict[str, int] | None:
    """The tokens that a checksum file lists; None if it does not."""
    try:
        return {token["appId"]: int(token["version"]) for token in checksum["setTransactions"]}
    except (ValueError, KeyError, TypeError):
        return None


def note_in(line: str) -> CommitNote | None:
    """The note of a commit, by its first line; None if it is not ours."""
    try:
        return CommitNote.from_json(json.loads(line)["commitInfo"].get("userMetadata"))
    except (ValueError, KeyError, AttributeError):
        return None
