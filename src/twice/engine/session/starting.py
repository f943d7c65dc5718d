"""Ctrl-C and SIGTERM while Spark starts: no JVM is left behind.

An interrupted `launch_gateway` removes the folder that its JVM is about to write to. That JVM then fails and never
ends: its main thread, which watches for our end, is gone, and a thread of py4j's goes on. So a signal ends the JVM by
its process id, and the interrupt is raised when PySpark has noticed. PySpark's own handler of SIGINT calls the JVM in
the middle of another call, so it is replaced as soon as it is set.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from twice.core.failure.interruption import exit_code_of, interruption
from twice.engine.session import interrupts
from twice.errors import Interrupted, RunError

_PATIENCE_S = 10.0
_PY4J = logging.getLogger("py4j")


class Start:
    """A start of Spark under way. The first signal ends its JVM, or keeps it from being started; a second one does not
    wait for PySpark to notice."""

    def __init__(self, launches: bool) -> None:
        self._launches = launches
        self.before = interrupts.handlers()
        self.interrupt: KeyboardInterrupt | None = None
        self._jvm: subprocess.Popen[Any] | None = None

    def hold_signals(self) -> None:
        """A second call takes SIGINT back from PySpark."""
        for number, handler in self.before.items():
            if callable(handler):
                signal.signal(number, self._asked)

    def launch(self, *arguments: Any, **options: Any) -> subprocess.Popen[Any]:
        """In the place of the `Popen` that PySpark starts its JVM with: nobody else tells us its process id in time."""
        if self.interrupt is not None:
            raise self.interrupt
        self._jvm = subprocess.Popen(*arguments, **options)
        if self._was_asked():
            self._jvm.kill()
        return self._jvm

    def end_jvm(self) -> None:
        if self._jvm is not None:
            self._jvm.kill()

    def jvm_ended(self) -> None:
        if self._jvm is not None:
            with suppress(subprocess.TimeoutExpired):
                self._jvm.wait(_PATIENCE_S)

    def _was_asked(self) -> bool:
        return self.interrupt is not None

    def _asked(self, number: int, frame: FrameType | None) -> None:
        try:
            self.before[number](number, frame)  # who does not stop at once (a backfill) needs its session
        except KeyboardInterrupt as interrupt:
            second, self.interrupt = self.interrupt is not None, self.interrupt or interrupt
            _mute()
            self.end_jvm()
            if not self._launches or (second and self._jvm is not None):
                raise


@contextmanager
def starting(*, launches: bool = True) -> Iterator[Start]:
    """Spark starts in this block, in a JVM that is launched here; else there is none to end, and a signal raises at
    once. When it has ended, signals stop jobs (`interrupts`); interrupted, the JVM is gone and
    the process as it was before, so a notebook may start Spark again."""
    start = Start(launches)
    start.hold_signals()
    java_gateway.Popen = start.launch  # type: ignore[assignment, attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM")
            yield start
        interrupts.stopping_jobs(start.before)
        if start.interrupt is not None:
            raise start.interrupt
    except BaseException as error:
        interrupt = start.interrupt or (error if isinstance(error, KeyboardInterrupt) else None)
        if interrupt is None and interruption(error) is None:
            _give_back(start)
            raise
        start.end_jvm()
        _give_back(start)
        forget_jvm()
        start.jvm_ended()
        if interrupt is None:
            raise  # what a caller's own signal handler raised
        raise Interrupted(
            RunError("interrupted while Spark was starting", now="No table was touched.", fix="Run it again."),
            exit_code_of(interrupt),
        ) from interrupt
    finally:
        java_gateway.Popen = subprocess.Popen  # type: ignore[attr-defined]


def _give_back(start: Start) -> None:
    for number, handler in start.before.items():
        signal.signal(number, handler)
    interrupts.give_back()


def forget_jvm() -> None:
    """PySpark's memory of a JVM that is gone."""
    _mute()
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if context is not None:
            context.stop()
    with suppress(Exception):
        if gateway is not None and gateway.proc is not None:  # another process's may hang
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None  # `stop` gets there only if the JVM answers, or fails as it expects
    SparkSession._instantiatedSession = None
    _PY4J.setLevel(logging.NOTSET)
    logging.getLogger().removeFilter(_unless_cut_off)


def _mute() -> None:
    """py4j logs, with its trace, each call that the end of the JVM cuts off: by its own loggers, and by the root."""
    _PY4J.setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_unless_cut_off)


def _unless_cut_off(record: logging.LogRecord) -> bool:
    return not record.getMessage().endswith("while sending command.")
