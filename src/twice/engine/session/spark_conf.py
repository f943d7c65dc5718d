"""What the embedded Spark is started with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from twice.engine.session import archive as archives
from twice.engine.session import jars
from twice.engine.session.java import Java
from twice.engine.session.supported import DELTA_CATALOG, DELTA_EXTENSION

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
ARCHIVE = "spark.twice.archive"
_SHORT_JOBS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
"""With one compiler Java reserves a fifth of its usual code cache. Spark compiles classes for every query: within some
minutes it was full, and a quarter of the JVM's time went into making room in it."""
_GIB = 1 << 30
_LOOPBACK = "127.0.0.1"

# Settings that a run's result may not depend on: the same in every run.
RUN_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Spark 4.1 binds `:start` in its parser, and Delta 4.4's parser does not pass that on: bind it when analysing.
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.databricks.delta.autoCompact.enabled": "false",
    "spark.databricks.delta.optimizeWrite.enabled": "false",
}


@dataclass(frozen=True)
class SessionSettings:
    """`folder` gets Spark's log and scratch files (those under `scratch`, this process's own), `warehouse` the tables.

    `short_jobs` trades peak speed for a quick start (tests, demo, small runs): never for big data.
    `warm`: the folder in which a warm Spark is looked for.
    `archive`: "make" uses the class-data archive and makes it if there is none, "use" never makes one.
    """

    folder: Path
    warehouse: Path
    short_jobs: bool = False
    cores: int | None = None
    memory: str | None = None
    cache: Path = field(default_factory=jars.cache_folder)
    archive: Literal["make", "use", "off"] = "make"
    conf: Mapping[str, str] = field(default_factory=dict)
    scratch: str = ""
    warm: Path | None = None

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"


def spark_conf(settings: SessionSettings, delta: tuple[Path, ...], archive: archives.Archive | None) -> dict[str, str]:
    """By name, and so that a second session with the same settings has the same."""
    options = [
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        f"-Dtwice.log.file={settings.log.absolute()}",
        "-Duser.timezone=UTC",
        *(archives.options(archive, settings.archive == "make") if archive else ()),
        *(_SHORT_JOBS if settings.short_jobs else ()),
    ]
    cores = settings.cores or _cores()
    ours = {
        "spark.app.name": "twice",
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": settings.memory or _memory(),
        "spark.driver.extraJavaOptions": " ".join(_quoted(option) for option in options),
        # Not spark.jars: classes of another loader than the application's cannot be archived.
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in delta),
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(settings.folder.absolute() / "scratch" / settings.scratch),
        "spark.sql.warehouse.dir": str(settings.warehouse.absolute()),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.databricks.delta.snapshotPartitions": "1",
        **({ARCHIVE: str(archive.path)} if archive and settings.archive == "make" else {}),
        **RUN_CONF,
    }
    return _joined(ours, settings.conf, delta)


def archive_for(java: Java, delta: tuple[Path, ...], cache: Path) -> archives.Archive:
    return archives.archive_of(java, [*delta, *archives.spark_jars(jars.spark_home())], cache)


def _joined(ours: dict[str, str], theirs: Mapping[str, str], delta: tuple[Path, ...]) -> dict[str, str]:
    """The user's settings win, except where both are lists: there they are added to ours."""
    conf = {**ours, **theirs}
    for key, between in (
        ("spark.driver.extraJavaOptions", " "),
        ("spark.driver.extraClassPath", os.pathsep),
        ("spark.sql.extensions", ","),
    ):
        if theirs.get(key):
            conf[key] = f"{ours[key]}{between}{theirs[key]}"
    if not conf["spark.master"].startswith("local"):
        # Executors of a cluster need the jars too, and must reach the driver.
        conf["spark.jars"] = ",".join([*(str(jar) for jar in delta), *filter(None, [theirs.get("spark.jars")])])
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            if key not in theirs:
                del conf[key]
    return conf


def _cores() -> int:
    # A container may be given fewer than the machine has; macOS does not show it.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 2


def _memory() -> str:
    """A quarter of the machine, from 1 to 8 GiB."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        physical = 8 * _GIB
    return f"{min(8, max(1, physical // 4 // _GIB))}g"


def _quoted(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
