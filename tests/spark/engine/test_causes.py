"""Spark's errors say what they are: their condition, their SQLSTATE, and the Java errors behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from twice.core.failure import transience
from twice.core.failure.transience import Nature, judge
from twice.engine.causes import signs


def raised(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def thrown(spark: Any, throwable: Any) -> Exception:
    """The error as it comes out of a call into the JVM, wrapped by Java once more."""
    return raised(lambda: spark._jvm.java.util.concurrent.CompletableFuture.failedFuture(throwable).join())


def test_an_analysis_error_has_its_condition_and_sqlstate_and_is_permanent(session: Any) -> None:
    chain = signs(raised(lambda: session.sql("SELECT * FROM nowhere")))
    named = [(each.condition, each.sqlstate) for each in chain if each.condition]
    assert ("TABLE_OR_VIEW_NOT_FOUND", "42P01") in named
    assert judge(chain).nature is Nature.PERMANENT
    assert judge(chain, transient=["TABLE_OR_VIEW_NOT_FOUND"]).nature is Nature.TRANSIENT
    assert judge(chain, transient=["42"]).nature is Nature.TRANSIENT


def test_a_refused_socket_in_the_jvm_is_transient(spark: Any) -> None:
    found = judge(signs(raised(lambda: spark._jvm.java.net.Socket("127.0.0.1", 1))))
    assert (found.nature, found.why) == (Nature.TRANSIENT, "java.net.SocketException")


def test_a_java_cause_is_found_below_wrappers_that_say_nothing(spark: Any) -> None:
    jvm = spark._jvm
    cause = jvm.java.net.SocketTimeoutException("read timed out")
    wrapped = jvm.java.lang.RuntimeException("job aborted", jvm.java.io.IOException("stage failed", cause))
    assert judge(signs(thrown(spark, wrapped))).nature is Nature.TRANSIENT
    bare = jvm.java.lang.RuntimeException("job aborted")
    assert judge(signs(thrown(spark, bare))).nature is Nature.PERMANENT


def test_a_jdbc_error_is_judged_by_its_sqlstate(spark: Any) -> None:
    for sqlstate, nature in (("40001", Nature.TRANSIENT), ("23505", Nature.PERMANENT), ("57P01", Nature.TRANSIENT)):
        assert judge(signs(thrown(spark, spark._jvm.java.sql.SQLException("no", sqlstate)))).nature is nature


def test_every_listed_java_class_and_condition_has_that_name(spark: Any) -> None:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    names = [name for name in transience.CLASSES if name.startswith(("java.", "org.apache."))]
    # The S3 client is no part of the embedded session.
    missing = [name for name in names if ".s3a." not in name and loader.getResource(_file(name)) is None]
    assert [name for name in missing if not name.startswith("java.")] == []
    for name in (name for name in names if name.startswith("java.")):
        spark._jvm.java.lang.Class.forName(name)
    listed = "".join(
        spark._jvm.org.apache.commons.io.IOUtils.toString(loader.getResource(file), "UTF-8")
        for file in ("error/error-conditions.json", "error/delta-error-classes.json")
    )
    assert [name for name in transience.CONDITIONS if f'"{name}"' not in listed] == []


def _file(name: str) -> str:
    return name.replace(".", "/") + ".class"
