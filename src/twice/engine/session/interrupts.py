"""Ctrl-C and SIGTERM while Python waits for the JVM.

PySpark's own handler calls the JVM from inside the call that was interrupted: that line is taken, so the call ends in
an error of py4j's and the job goes on. Ours stops the jobs from a thread, and so a line, of its own, and lets whoever
handled the signal before decide what happens: usually it raises. The taken line is then dropped here:
py4j's own way shuts down every line to the JVM, the other threads' too, and the next call on one of them fails.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import SparkSession

from twice.core.failure.interruption import SIGNALS
from twice.core.failure.stopping import waits_for_threads

_LATER_S = 0.05
Handler = Callable[[int, FrameType | None], object]


def handlers() -> dict[int, Any]:
    """Who handles these signals now; nobody, outside the main thread, where no handler can be set."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in SIGNALS}


def stopping_jobs(before: Mapping[int, Any]) -> None:
    """Handle them in front of those who handled them before Spark started."""
    for number, handler in before.items():
        signal.signal(number, _Stopping(handler) if callable(handler) else handler)
    logging.getLogger().addFilter(_unless_interrupted)


def give_back() -> None:
    """With the end of Spark. Whoever has taken a signal over since keeps it. A second call does nothing."""
    for number, handler in handlers().items():
        if isinstance(handler, _Stopping):
            signal.signal(number, handler.before)
    logging.getLogger().removeFilter(_unless_interrupted)


class _Stopping:
    def __init__(self, before: Handler) -> None:
        self.before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _is_collecting(frame):
            again = threading.Timer(_LATER_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        try:
            self.before(number, frame)
        except BaseException:
            # Only now: who does not stop at once (a backfill finishes what it has in hand) needs its jobs and its line.
            _drop_line(frame)
            if not waits_for_threads():  # else the jobs are those of other threads, one of which may be publishing
                threading.Thread(target=stop_jobs, name="twice-stop", daemon=True).start()
            raise


def _drop_line(frame: FrameType | None) -> None:
    """Whoever is in the middle of a call gets a new line for the next one: the answer to this one may still come."""
    gateway: Any = SparkContext._gateway
    if gateway is None or not _is_calling(frame):
        return
    connection = gateway._gateway_client.get_thread_connection()
    if connection is not None and connection.socket is not None:
        taken, connection.socket = connection.socket, None
        with suppress(OSError):
            taken.shutdown(socket.SHUT_RDWR)
        taken.close()


def _is_collecting(frame: FrameType | None) -> bool:
    """py4j tells the JVM of objects that Python has dropped in callbacks of weak references. Python prints what is
    raised there and goes on: the interrupt would be lost."""
    while frame is not None:
        if frame.f_code.co_name == "<lambda>" and frame.f_globals.get("__name__") == "py4j.java_gateway":
            return True
        frame = frame.f_back
    return False


def _is_calling(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("py4j."):
            return True
        frame = frame.f_back
    return False


def stop_jobs() -> None:
    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):
            context.cancelAllJobs()


@contextmanager
def ending_jobs(session: SparkSession) -> Iterator[Callable[[], None]]:
    """A call for other threads that ends the jobs this one has begun in the block: each has this thread's tag."""
    tag, context = f"twice-{uuid4().hex}", session.sparkContext
    context.addJobTag(tag)

    def end() -> None:
        with suppress(Exception):
            context.cancelJobsWithTag(tag)

    try:
        yield end
    finally:
        with suppress(Exception):
            context.removeJobTag(tag)


def _unless_interrupted(record: logging.LogRecord) -> bool:
    """py4j logs each KeyboardInterrupt with its trace, before it hands it on."""
    return not record.getMessage().startswith("KeyboardInterrupt while sending command")
