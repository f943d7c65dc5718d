"""A class-data archive: the JVM maps Spark's and Delta's classes from one file instead of parsing 290 jars again.

It belongs to one JDK and one list of jars, so both are in its name; it lives in the user's cache. The JVM itself
refuses an archive that does not fit and starts without it (`-Xshare:auto`): it can make a start slower, never wrong.
`python -m twice.engine.session.archive` makes one by a training run; otherwise the first embedded session does as it
ends.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twice.engine.session.jars import cache_folder, ready
from twice.engine.session.java import Java, find_java
from twice.errors import TwiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    quiet = ("-Xlog:disable",)  # a misfit is told on stdout otherwise
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


def train(cache: Path) -> Archive:
    """Make the archive by what every first run does: create a table, replace a slice, read it back."""
    from twice.engine.session.session import SessionSettings, archive_for, close, embedded

    archive = archive_for(find_java(), ready(cache), cache)
    if archive.made:
        return archive
    with tempfile.TemporaryDirectory(prefix="twice-training-") as folder:
        spark = embedded(SessionSettings(Path(folder), Path(folder) / "warehouse", short_jobs=True, cache=cache))
        try:
            _exercise(spark, str(Path(folder) / "table"))
        finally:
            close(spark)
    return archive


def _exercise(spark: SparkSession, table: str) -> None:
    from twice.core.audit import measures_of, not_null
    from twice.core.scope import Daily
    from twice.engine.spark import SparkEngine

    engine, scope = SparkEngine(spark), Daily("day", start="2026-01-01")
    session, slice_ = engine.fresh(), scope.slice_of("2026-01-01")
    rows = session.range(100).selectExpr("id", "id % 7 AS k", "date_add(DATE '2026-01-01', cast(id % 2 AS int)) AS day")
    rows.write.format("delta").partitionBy("day").save(table)
    orders = engine.cut(session.read.format("delta").load(table), "day", slice_.start, slice_.end, None)
    result, _ = engine.shape(orders.groupBy("day", "k").agg({"id": "sum"}).toDF("day", "id", "k"), scope.held_in)
    engine.leaves(result)
    engine.suspicions(result)
    for version in (1, 2):
        observed = engine.observe(result, [slice_], measures_of([not_null("id")]))
        (
            observed.frame.write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", "day >= DATE '2026-01-01' AND day < DATE '2026-01-02'")
            .option("txnAppId", "training")
            .option("txnVersion", str(version))
            .save(table)
        )
        observed.read()
    engine.duplicates(session.read.format("delta").option("versionAsOf", "1").load(table), ["day", "id"])


def main() -> int:
    try:
        archive = train(cache_folder())
    except TwiceError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    said = archive.path if archive.made else "this JVM made no archive; starts will be slower"
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
