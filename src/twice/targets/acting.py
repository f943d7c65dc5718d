"""Whose session a thread acts for: Spark asks the thread, and `newSession()` does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def acting(session: SparkSession) -> Iterator[None]:
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
