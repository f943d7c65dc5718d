"""A session in a keeper's JVM, as a command has it: it can end neither that JVM nor the jobs of another command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from twice.engine.warm.fit import OF_TWICE
from twice.engine.warm.line import Line

CLIENT = "TWICE_WARM_CLIENT"
"""Workers of UDFs are shared among commands whose environments are the same, and they keep the modules they have
imported: with this variable each command has workers, and modules, of its own."""
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class AttachedContext(SparkContext):
    """`line` is open as long as this process may use the JVM."""

    line: Line

    def cancelAllJobs(self) -> None:  # noqa: N802 - Spark's name
        """Those of this command. The keeper does it: a signal's handler may ask in the middle of a call."""
        with suppress(OSError):
            self.line.send({"want": "cancel"})

    def stop(self) -> None:
        """Leave. The JVM goes on for others. A second call does nothing."""
        if SparkContext._active_spark_context is not self:
            return
        self.line.close()
        with suppress(Exception):  # where PySpark could not even start it, too
            self._accumulatorServer.shutdown()
        with suppress(Exception):
            assert SparkContext._gateway is not None
            SparkContext._gateway.close()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


class AttachedSession(SparkSession):
    def stop(self) -> None:
        """PySpark's own clears the JVM's default session, which is the keeper's."""
        self.sparkContext.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def leave_ended() -> None:
    """A notebook lives longer than the keeper that it attached to may: it then starts its own."""
    context = SparkContext._active_spark_context
    if isinstance(context, AttachedContext) and not context.line.is_open():
        context.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None


_plain = SparkSession.__init__


def _own_default(made: SparkSession, context: SparkContext, java: Any = None, options: Any = None) -> None:
    """`SparkSession(context)` takes the JVM's default session, which is the keeper's, for all commands to see."""
    ours = SparkSession._instantiatedSession
    if java is None and ours is not None and isinstance(context, AttachedContext):
        java = ours._jsparkSession
    _plain(made, context, java, options or {})


def attached(line: Line, port: int, secret: str, client: str) -> AttachedSession:
    """The session that the keeper has made for this command at a port of its JVM."""
    with _environment({_PORT: str(port), _SECRET: secret}):
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    jvm, session = gateway.jvm, gateway.entry_point
    context = jvm.JavaSparkContext.fromSparkContext(session.sparkContext())
    AttachedContext.line = line
    SparkSession.__init__ = _own_default  # type: ignore[assignment, method-assign]
    conf = SparkConf(_jvm=jvm, _jconf=context.getConf())
    ours = {name: value for name, value in os.environ.items() if name.startswith(OF_TWICE)}
    python = AttachedContext(gateway=gateway, jsc=context, conf=conf, environment={**ours, CLIENT: client})
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    default = sessions.getDefaultSession()
    made = AttachedSession(python, session)
    if default.isDefined():  # threads of the JVM's own belong to no command
        sessions.setDefaultSession(default.get())
    return made


@contextmanager
def _environment(ours: dict[str, str]) -> Iterator[None]:
    """Only while PySpark reads them: a process that this one starts must not attach by them."""
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
