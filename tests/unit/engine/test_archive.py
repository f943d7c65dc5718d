"""The class-data archive's name and life, without a JVM."""

from __future__ import annotations

import os
import time
from pathlib import Path

from twice.engine.session.archive import Archive, archive_of, keep, options
from twice.engine.session.java import Java

JAVA = Java(Path("java"), "17.0.1", "build one")


def jar(folder: Path, body: str = "x") -> Path:
    path = folder / "a.jar"
    path.write_text(body)
    return path


def test_another_jdk_or_another_jar_is_another_archive(tmp_path: Path) -> None:
    first = archive_of(JAVA, [jar(tmp_path)], tmp_path)
    assert archive_of(JAVA, [tmp_path / "a.jar"], tmp_path) == first
    assert archive_of(Java(JAVA.program, JAVA.version, "build two"), [tmp_path / "a.jar"], tmp_path) != first
    assert archive_of(JAVA, [jar(tmp_path, "xy")], tmp_path) != first


def test_it_is_drafted_once_then_used(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive" / "k.jsa")
    assert options(archive, make=False) == ()
    assert f"-XX:ArchiveClassesAtExit={archive.draft}" in options(archive, make=True)
    archive.draft.write_text("classes")
    keep(archive)
    assert archive.made
    assert not archive.draft.exists()
    assert f"-XX:SharedArchiveFile={archive.path}" in options(archive, make=True)
    assert "-Xshare:auto" in options(archive, make=False)


def test_a_jvm_that_left_no_draft_or_an_empty_one_makes_no_archive(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "k.jsa")
    keep(archive)
    archive.draft.touch()
    keep(archive)
    assert not archive.made


def test_a_second_process_that_was_slower_leaves_the_first_archive(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "k.jsa")
    archive.path.write_text("first")
    archive.draft.write_text("second")
    keep(archive)
    assert archive.path.read_text() == "first"
    assert not archive.draft.exists()


def test_old_drafts_of_killed_processes_are_swept(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "k.jsa")
    old, new = tmp_path / "k.jsa.1.draft", tmp_path / "k.jsa.2.draft"
    old.touch()
    new.touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    options(archive, make=True)
    assert not old.exists()
    assert new.exists()
