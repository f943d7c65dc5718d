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
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from twice.core.ports import SILENT, Progress
from twice.engine.session import archive as archives
from twice.engine.session import interrupts, jars
from twice.engine.session.java import find_java, remember_packages
from twice.engine.session.spark_conf import ARCHIVE, RUN_CONF, SessionSettings, archive_for, spark_conf
from twice.engine.session.starting import starting
from twice.engine.session.supported import check_pieces, refuse_remote, refuse_remote_files
from twice.errors import EnvironmentProblem

_LOG_LIMIT = 20_000_000
TESTED_SPARK, TESTED_DELTA = "4.1", "4.4.0"
_RUN = "spark.twice.run"
PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark 4 writes every error it raises to stderr as well, as a page of JSON. We report the exception once."""
_SHUTDOWN_S = 180.0
"""Writing a class-data archive takes its time on a busy machine; only a JVM that hangs takes longer."""
_SUBMITTED = ("spark.driver.", "spark.master", "spark.jars", "spark.files", "spark.submit.")
"""What Spark must know before its JVM starts."""


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
    wanted = spark_conf(settings, delta, archive)
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
        for name in PYSPARK_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        atexit.register(close, spark)
        refuse_remote_files(spark)
        remember_packages(spark._jvm)
    return spark


def run_session(base: SparkSession) -> SparkSession:
    """A session of its own for one run: nothing another run sets can change what this one computes."""
    session = base.newSession()
    session.conf.set(_RUN, uuid.uuid4().hex)
    for key, value in RUN_CONF.items():
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
    """End the embedded session and wait for its JVM; leave the JVM of another process. A second call does nothing."""
    gateway: Any = SparkContext._gateway
    if gateway is None or spark._jvm is not gateway.jvm:
        return
    interrupts.give_back()
    if gateway.proc is None:  # another process's JVM, which goes on
        atexit.unregister(close)
        spark.stop()
        return
    archive, process, end = spark.sparkContext._conf.get(ARCHIVE), gateway.proc, gateway.shutdown
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
