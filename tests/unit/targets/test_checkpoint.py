"""Tokens of a table that has more of them than Delta lists beside a commit: from the checkpoint and the commits since,
or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from twice.targets.delta.log.commits import Commits, LocalLogFiles
from twice.targets.delta.log.table import FORGETS_TOKENS

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

_TXN = pyarrow.struct([("appId", pyarrow.string()), ("version", pyarrow.int64()), ("lastUpdated", pyarrow.int64())])
_METADATA = pyarrow.struct(
    [("id", pyarrow.string()), ("configuration", pyarrow.map_(pyarrow.string(), pyarrow.string()))]
)


class OldLog:
    """A log whose newest checksum file lists no tokens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits = Commits(lambda: LocalLogFiles(folder))

    def checkpoint(self, version: int, tokens: Mapping[str, int], settings: Mapping[str, str] | None = None) -> None:
        rows = [
            {"txn": {"appId": name, "version": at, "lastUpdated": 1}, "metaData": None} for name, at in tokens.items()
        ]
        described = {"txn": None, "metaData": {"id": "table", "configuration": list((settings or {}).items())}}
        schema = pyarrow.schema([("txn", _TXN), ("metaData", _METADATA)])
        table = pyarrow.Table.from_pylist([*rows, described], schema=schema)
        parquet.write_table(table, self.folder / f"{version:020d}.checkpoint.parquet")

    def commit(self, version: int, *actions: Mapping[str, Any], checksum: Mapping[str, Any] | None = None) -> None:
        info = {"commitInfo": {"txnId": f"commit {version}"}}
        lines = "\n".join(json.dumps(each) for each in (info, *actions))
        (self.folder / f"{version:020d}.json").write_text(lines + "\n")
        held = {"txnId": f"commit {version}"} if checksum is None else checksum
        (self.folder / f"{version:020d}.crc").write_text(json.dumps(held))


def txn(name: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": name, "version": version}}


@pytest.fixture
def log(tmp_path: Path) -> OldLog:
    made = OldLog(tmp_path)
    made.checkpoint(3, {"a": 1, "b": 5})
    made.commit(4, txn("b", 6))
    made.commit(5, txn("c", 1), {"add": {"path": "x"}})
    return made


def test_tokens_are_those_of_the_checkpoint_with_what_later_commits_moved(log: OldLog) -> None:
    assert log.commits.tokens_at(5) == {"a": 1, "b": 6, "c": 1}
    assert log.commits.tokens_at(4) == {"a": 1, "b": 6}


def test_the_newest_checkpoint_that_is_not_newer_counts(log: OldLog) -> None:
    log.checkpoint(5, {"a": 1, "b": 6, "c": 1})
    log.commit(6, txn("c", 2))
    assert log.commits.tokens_at(6) == {"a": 1, "b": 6, "c": 2}
    assert log.commits.tokens_at(4) == {"a": 1, "b": 6}


def test_what_the_checksum_file_lists_is_believed_first(log: OldLog) -> None:
    listed = {"txnId": "commit 6", "setTransactions": [{"appId": "a", "version": 2}]}
    log.commit(6, txn("a", 2), checksum=listed)
    assert log.commits.tokens_at(6) == {"a": 2}


def test_without_a_checksum_file_of_the_very_commit_delta_is_asked(log: OldLog) -> None:
    log.commit(5, txn("c", 1), checksum={"txnId": "another"})
    assert log.commits.tokens_at(5) is None


def test_a_commit_that_is_gone_leaves_it_to_delta(log: OldLog) -> None:
    (log.folder / f"{4:020d}.json").unlink()
    assert log.commits.tokens_at(5) is None


def test_a_checkpoint_that_is_gone_or_broken_leaves_it_to_delta(log: OldLog) -> None:
    path = log.folder / f"{3:020d}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert log.commits.tokens_at(5) is None
    path.unlink()
    assert log.commits.tokens_at(5) is None


def test_a_checkpoint_far_behind_leaves_it_to_delta(tmp_path: Path) -> None:
    log = OldLog(tmp_path)
    log.checkpoint(0, {"a": 1})
    for version in range(1, 102):
        log.commit(version, txn("a", version + 1))
    assert log.commits.tokens_at(100) == {"a": 101}
    assert log.commits.tokens_at(101) is None


def test_a_table_that_forgets_its_tokens_is_left_to_delta(log: OldLog) -> None:
    log.commit(6, {"metaData": {"configuration": {FORGETS_TOKENS: "interval 1 day"}}})
    assert log.commits.tokens_at(6) is None
    log.checkpoint(6, {"a": 1}, {FORGETS_TOKENS: "interval 1 day"})
    log.commit(7, txn("a", 2))
    assert log.commits.tokens_at(7) is None
