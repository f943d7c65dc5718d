"""The file that leads to a keeper is its user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from twice.engine.warm.keeper_file import KeeperFile, read_all, sweep, write

HERE = KeeperFile(os.getpid(), 4711, "a key", {"Python": "digest"})


def test_what_was_written_is_read_and_nobody_else_may(tmp_path: Path) -> None:
    path = write(tmp_path / "warm", HERE)
    assert read_all(tmp_path / "warm") == [(path, HERE)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_could_read_or_write_is_not_used(tmp_path: Path, mode: int) -> None:
    write(tmp_path, HERE).chmod(mode)
    assert read_all(tmp_path) == []


def test_a_file_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, HERE)
    monkeypatch.setattr(os, "getuid", lambda: 123_456)
    assert read_all(tmp_path) == []


NOT_WHOLE = (
    *("", "{", "[]", '{"pid": 1}', '{"pid": 1, "port": 99999, "key": "", "fit": {}}'),
    *('{"pid": 1, "port": 1, "key": 1, "fit": {}}', '{"pid": 1, "port": 1, "key": "", "fit": []}'),
)


@pytest.mark.parametrize("text", NOT_WHOLE)
def test_a_file_that_is_not_whole_is_not_used(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, HERE)
    path.write_text(text)
    assert read_all(tmp_path) == []


@pytest.mark.timeout(10)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1.json", 0o600)
    assert read_all(tmp_path) == []


def test_a_keeper_that_was_killed_is_not_asked_for_its_port_may_be_anothers(tmp_path: Path) -> None:
    write(tmp_path, KeeperFile(2**22 + 1, 4712, "a key", {}))
    assert read_all(tmp_path) == []


def test_files_of_keepers_that_were_killed_are_swept(tmp_path: Path) -> None:
    alive = write(tmp_path, HERE)
    gone = write(tmp_path, KeeperFile(2**22 + 1, 4712, "a key", {}))
    sweep(tmp_path)
    assert alive.exists() and not gone.exists()
    sweep(tmp_path)
