"""Sessions: the embedded one that twice starts itself, or the caller's own, and a fresh one for each run."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from twice.core.ports import SILENT, Progress
from twice.engine.session import archive as archives
from twice.engine.session import interrupts, jars
from twice.engine.session.java import Java, find_java, remember_packages
from twice.engine.session.starting import starting
from twice.engine.session.supported import (
    DELTA_CATALOG,
    DELTA_EXTENSION,
    check_pieces,
    refuse_remote,
    refuse_remote_files,
)
from twice.errors import EnvironmentProblem

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_LOG_LIMIT = 20_000_000
TESTED_SPARK, TESTED_DELTA = "4.1", "4.4.0"
_ARCHIVE = "spark.twice.archive"
_RUN = "spark.twice.run"
_SHORT_JOBS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
"""With one compiler Java reserves a fifth of its usual code cache. Spark compiles classes for every query: within some
minutes it was full, and a quarter of the JVM's time went into making room in it."""
_GIB = 1 << 30
_PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark 4 writes every error it raises to stderr as well, as a page of JSON. We report the exception once."""
_SHUTDOWN_S = 180.0
"""Writing a class-data archive takes its time on a busy machine; only a JVM that hangs takes longer."""
_LOOPBACK = "127.0.0.1"
_SUBMITTED = ("spark.driver.", "spark.master", "spark.jars", "spark.files", "spark.submit.")
"""What Spark must know before its JVM starts."""

# Settings that a run's result may not depend on: the same in every run.
_RUN_CONF = {
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

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"


def base(settings: SessionSettings, progress: Progress = SILENT) -> SparkSession:
    """The caller's own session if there is one, else the embedded one."""
    refuse_remote()
    found = existing()
    return found if found is not None else embedded(settings, progress)


def existing() -> SparkSession | None:
    """A classic session that is already running in this process, checked for what twice needs of it."""
    if SparkContext._active_spark_context is None:
        return None
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is not None:
        check_pieces(session)
        remember_packages(session._jvm)
    return session


def embedded(settings: SessionSettings, progress: Progress = SILENT) -> SparkSession:
    """Start Spark in this process's own JVM. The JVM ends with `close`, at the latest with the process; at once, where
    the start is interrupted."""
    refuse_remote()
    java = find_java()
    delta = jars.ready(settings.cache, progress=progress)
    progress.begins("starting", "Spark")
    archive = archive_for(java, delta, settings.cache) if settings.archive != "off" else None
    wanted = _conf(settings, delta, archive)
    settings.folder.mkdir(parents=True, exist_ok=True)
    settings.warehouse.mkdir(parents=True, exist_ok=True)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with starting() as start:
        # The rest never becomes a command line: any user of the machine could read a secret there.
        _start_jvm(_spark_conf({k: v for k, v in wanted.items() if k.startswith(_SUBMITTED)}), settings.log)
        builder = SparkSession.builder.config(conf=_spark_conf(wanted))
        SparkContext.getOrCreate(_with(SparkConf(), wanted))
        start.hold_signals()
        spark = builder.getOrCreate()
        for name in _PYSPARK_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        atexit.register(close, spark)
        refuse_remote_files(spark)
        remember_packages(spark._jvm)
    return spark


def run_session(base: SparkSession) -> SparkSession:
    """A session of its own for one run: nothing another run sets can change what this one computes."""
    session = base.newSession()
    session.conf.set(_RUN, uuid.uuid4().hex)
    for key, value in _RUN_CONF.items():
        session.conf.set(key, value)
        if str(session.conf.get(key)) != value:
            raise EnvironmentProblem(
                f"this Spark session does not let {key} be {value!r}",
                fix="Without it a run could give another result elsewhere. Use a session that twice starts itself.",
            )
    return session


def run_of(session: SparkSession) -> str | None:
    """Which run a session was made for; None for every other session."""
    return session.conf.get(_RUN, None)


def close_running(progress: Progress) -> None:
    """End the session of this process, which is about to end itself. Without one nothing happens."""
    session = SparkSession._instantiatedSession
    if session is not None:
        close(session, progress)


def close(spark: SparkSession, progress: Progress = SILENT) -> None:
    """End the embedded session and wait for its JVM. A second call does nothing."""
    gateway: Any = SparkContext._gateway
    if gateway is None or spark._jvm is not gateway.jvm:
        return
    interrupts.give_back()
    archive, process, end = spark.sparkContext._conf.get(_ARCHIVE), gateway.proc, gateway.shutdown
    drafts = archive is not None and not archives.Archive(Path(archive)).made
    progress.begins("caching classes for faster starts" if drafts else "ending", "Spark")
    with suppress(Exception):  # a JVM that is already gone needs no stopping
        spark.stop()
    with suppress(Exception):
        end()
    SparkContext._gateway = SparkContext._jvm = None
    process.stdin.close()  # the JVM waits for this end of file to leave
    try:
        process.wait(_SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if archive:
        archives.keep(archives.Archive(Path(archive)))
    atexit.unregister(close)


def check_tested(session: SparkSession) -> None:
    """Refuse a Spark or a Delta that nobody has tried this version of twice with: its own commits use classes that are
    not Delta's API."""
    found = (str(session.version), delta_version(session))
    if not is_tested(*found):
        raise EnvironmentProblem(
            f"this is Delta {found[1]} on Spark {found[0]}, and twice was tested with Delta {TESTED_DELTA} on Spark "
            f"{TESTED_SPARK}.x",
            fix="Set internal = false in twice.toml to write rows by Delta's public calls, or use those versions.",
        )


def is_tested(spark: str, delta: str) -> bool:
    return spark.startswith(f"{TESTED_SPARK}.") and delta == TESTED_DELTA


def delta_version(session: SparkSession) -> str:
    jvm: Any = session.sparkContext._jvm
    return str(getattr(getattr(jvm, "io.delta.package$"), "MODULE$").VERSION())


def archive_for(java: Java, delta: tuple[Path, ...], cache: Path) -> archives.Archive:
    return archives.archive_of(java, [*delta, *archives.spark_jars(jars.spark_home())], cache)


def _conf(settings: SessionSettings, delta: tuple[Path, ...], archive: archives.Archive | None) -> dict[str, str]:
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
        **({_ARCHIVE: str(archive.path)} if archive and settings.archive == "make" else {}),
        **_RUN_CONF,
    }
    return _joined(ours, settings.conf, delta)


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


def _spark_conf(settings: Mapping[str, str]) -> SparkConf:
    return _with(SparkConf(loadDefaults=False), settings)


def _with(conf: SparkConf, settings: Mapping[str, str]) -> SparkConf:
    for key, value in settings.items():
        conf.set(key, value)
    return conf


def _start_jvm(conf: SparkConf, log: Path) -> None:
    if SparkContext._gateway is not None:
        raise EnvironmentProblem(
            "a Spark JVM is already running in this process, and Python can hold only one",
            fix="Keep its session running and twice will use it, or start a new process.",
        )
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    # The JVM's own output too: nothing of it may reach the terminal.
    with log.open("ab") as output:
        begun = output.tell()
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
        except PySparkException as error:
            raise EnvironmentProblem(
                f"Java ended before Spark could start: {_last_line(log, begun)}",
                fix=f"All of its output is in {log}. Try: twice doctor --deep.",
            ) from error
    SparkContext._ensure_initialized(gateway=gateway)


def _last_line(log: Path, begun: int) -> str:
    lines = log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
