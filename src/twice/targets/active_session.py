"""Whose session a thread acts for (Spark asks the thread, and `newSession()` does not answer), and how its jobs are
stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession


@contextmanager
def as_active_session(session: SparkSession) -> Iterator[None]:
    """Make the session the thread's active one."""
    sessions = session._jvm.org.apache.spark.sql.SparkSession  # type: ignore[union-attr]
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def jobs_stopped(session: SparkSession) -> Callable[[], None]:
    """A call that stops every job of the session's context, and returns at once: it may come from a signal's handler,
    in the middle of a call into the JVM, whose line is not free. So it has a thread, and a line, of its own."""

    def stop() -> None:
        with suppress(Exception):
            session.sparkContext.cancelAllJobs()

    return lambda: threading.Thread(target=stop, name="twice-stop", daemon=True).start()
