"""Which Spark a command uses: the one of its process, a warm one that fits, or its own."""

from __future__ import annotations

import atexit
import logging
import os
import sys

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from twice.core.ports import SILENT, Progress
from twice.engine.session.java import remember_packages
from twice.engine.session.session import PYSPARK_LOGGERS, close, embedded, existing
from twice.engine.session.spark_conf import SessionSettings
from twice.engine.session.starting import forget_jvm, starting
from twice.engine.session.supported import refuse_remote
from twice.engine.warm.attached import attached
from twice.engine.warm.fit import digests, misfit, needs
from twice.engine.warm.keeper_file import KeeperFile, read_all
from twice.engine.warm.line import Line, ask


def warm_or_own(settings: SessionSettings, progress: Progress = SILENT) -> SparkSession:
    """Nothing is started but, at last, an embedded one: no command keeps Spark warm for another one unasked."""
    refuse_remote()
    found = existing()
    if found is None:
        found = attach(settings, progress)
    return found if found is not None else embedded(settings, progress)


def attach(settings: SessionSettings, progress: Progress = SILENT) -> SparkSession | None:
    """A session in a warm JVM that fits; None if there is none."""
    keepers = [] if settings.warm is None else read_all(settings.warm)
    wanted = needs(settings) if keepers else {}
    for _, kept in keepers:
        different = misfit(kept.fit, digests(wanted, kept.key))
        if different is not None:
            progress.learns(f"the warm one has {different}")
        elif (session := _ask_for_session(kept, settings, progress)) is not None:
            return session
    return None


def _ask_for_session(kept: KeeperFile, settings: SessionSettings, progress: Progress) -> SparkSession | None:
    warehouse = str(settings.warehouse.absolute())
    answered = ask(kept, want="session", pid=os.getpid(), command=_command(), warehouse=warehouse)
    if answered is None or "port" not in answered[1]:
        return None
    progress.begins("attaching to", "warm Spark")
    settings.warehouse.mkdir(parents=True, exist_ok=True)
    try:
        return _session(*answered)
    except (OSError, Py4JError):  # it has ended since it answered
        answered[0].close()
        forget_jvm()
        return None


def _session(line: Line, answer: dict[str, object]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with starting(launches=False) as start:
        session = attached(line, int(str(answer["port"])), str(answer["secret"]), str(answer["client"]))
        start.hold_signals()
        for name in PYSPARK_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        atexit.register(close, session)
        remember_packages(session._jvm)
    return session


def _command() -> str:
    """For `twice warm status`: what is attached."""
    return " ".join(["twice", *sys.argv[1:3]])
