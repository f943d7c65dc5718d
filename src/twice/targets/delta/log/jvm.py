"""Delta's non-public classes, through py4j: their package, their errors, their settings. Only this folder names them.

Delta writes the files of a transaction before it commits them. In between they can be audited; the same commit then
takes the old files of the slices out, the new ones in, and sets one token per slice. These are the classes of Delta's
own commands, not an API, so whatever is unusual about a table leads to the public path (table.py) and everything a
commit is about to do is verified first (manifest.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

PACKAGE = "org.apache.spark.sql.delta"
_PREFIX = "spark.databricks.delta.testOnly.dataFileNamePrefix"


@contextmanager
def named(session: SparkSession, prefix: str) -> Iterator[None]:
    """Data files written meanwhile begin with `prefix`, so that those of a killed attempt can still be found.

    Spark calls the setting static and refuses it in `conf.set`, but it is read from the session at every file.
    """
    conf = session._jsparkSession.sessionState().conf()
    conf.setConfString(_PREFIX, prefix)
    try:
        yield
    finally:
        conf.unsetConf(_PREFIX)


def is_conflict(error: BaseException | None) -> bool:
    """Whether Delta gave up because another commit came between. Where the user's code has imported the package
    `delta`, that has made exceptions of its own of Delta's conflicts, which keep nothing of Java's but the text."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if thrown is not None:
        return _is_a(thrown, "java.util.ConcurrentModificationException")
    return any(each.__module__.startswith("delta.exceptions.") for each in type(error).__mro__)


def broken_check(error: BaseException, name: str) -> str | None:
    """The offending values, if Delta refused a row by this check of `Transaction.write`."""
    at: Any = error.java_exception if isinstance(error, Py4JJavaError) else None
    while at is not None:
        text = str(at.getMessage())
        if name in text and "DELTA_VIOLATE_CONSTRAINT" in text:
            return " ".join(text.partition("violated by row with values:")[2].split())
        at = at.getCause()
    return None


def as_list(jvm: Any, seq: Any) -> list[Any]:
    return list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(seq))


def text_literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is_a(thrown: Any, name: str) -> bool:
    at = thrown.getClass()
    while at is not None:
        if at.getName() == name:
            return True
        at = at.getSuperclass()
    return False
