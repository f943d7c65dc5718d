"""A class-data archive: the JVM maps Spark's and Delta's classes from one file instead of parsing 290 jars again.

It belongs to one JDK and one list of jars, so both are in its name; it lives in the user's cache. The JVM itself
refuses an archive that does not fit and starts without it (`-Xshare:auto`): it can make a start slower, never wrong.
`python -m twice.engine.train_archive` makes one by a training run; else the first embedded session does as it ends.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twice.engine.session.java import Java

if TYPE_CHECKING:
    pass

_DAY_S = 86_400


@dataclass(frozen=True)
class Archive:
    """`path` is where the archive of this JDK and these jars is, or will be."""

    path: Path

    @property
    def made(self) -> bool:
        return self.path.is_file()

    @property
    def draft(self) -> Path:
        """Where this process would write it: unseen by others until it is whole."""
        return self.path.with_name(f"{self.path.name}.{os.getpid()}.draft")


def archive_of(java: Java, jars: Iterable[Path], cache: Path) -> Archive:
    """The JVM compares size and time of every jar on the class path, in order, so they all name the archive."""
    key = hashlib.sha256(java.build.encode())
    for jar in jars:
        seen = jar.stat()
        key.update(f"{jar}\0{seen.st_size}\0{seen.st_mtime_ns}\n".encode())
    return Archive(cache / "archive" / f"{key.hexdigest()[:24]}.jsa")


def options(archive: Archive, make: bool) -> tuple[str, ...]:
    """JVM options that use the archive, or (with `make`) write a draft of it as the JVM ends."""
    quiet = ("-Xlog:disable",)  # a misfit is printed to stdout otherwise
    if archive.made:
        return (*quiet, f"-XX:SharedArchiveFile={archive.path}", "-Xshare:auto")
    if make:
        archive.path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(archive.path.parent)
        return (*quiet, f"-XX:ArchiveClassesAtExit={archive.draft}")
    return ()


def keep(archive: Archive) -> None:
    """Call when the JVM that drafted it has ended. Without a draft nothing happens; a second call neither.

    Dying here leaves a draft that nobody reads.
    """
    if archive.made:
        archive.draft.unlink(missing_ok=True)
        return
    with suppress(OSError):
        if archive.draft.stat().st_size:
            archive.draft.replace(archive.path)


def _sweep(folder: Path) -> None:
    """Delete what killed processes left; a draft takes seconds to write, never a day."""
    for draft in folder.glob("*.draft"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > _DAY_S:
                draft.unlink()


def spark_jars(home: Path) -> Sequence[Path]:
    return sorted((home / "jars").glob("*.jar"))
