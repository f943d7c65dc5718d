"""What a keeper has in its JVM for one attached command: a session and a door of its own, and how both go again."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from twice.engine.warm.line import LOOPBACK

_LATE_JOBS_S = 10.0
"""A call of the command's that is under way in the JVM may start a job after its jobs were cancelled."""
_AGAIN_S = 0.1


class Served:
    """Its session shares nothing with another command's but Spark itself: catalog, views, caches and settings are its
    own. The threads that serve it inherit a tag, and so does every job that they start."""

    def __init__(self, base: SparkSession, warehouse: str) -> None:
        self._context = base.sparkContext
        self.name = f"twice-warm-{uuid4().hex}"
        self.secret = secrets.token_hex(32)
        jvm: Any = base._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # a folder may have been deleted and made anew
        options = jvm.java.util.HashMap()
        options.put("spark.sql.warehouse.dir", warehouse)
        self._session = jvm.org.apache.spark.sql.classic.SparkSession(self._context._jsc.sc(), options)
        builder = getattr(jvm.py4j, "ClientServer$ClientServerBuilder")(self._session).authToken(self.secret)
        address = jvm.java.net.InetAddress.getByName(LOOPBACK)
        self._server = (
            builder.javaAddress(address).javaPort(0).autoStartJavaServer(False).build()
        )
        self._start(jvm.org.apache.spark.sql.classic.SparkSession)
        self.port = int(self._server.getJavaServer().getListeningPort())

    def _start(self, sessions: Any) -> None:
        """Threads inherit from the one that starts them."""
        self._context.addJobTag(self.name)
        sessions.setActiveSession(self._session)
        try:
            self._server.startServer()
        finally:
            sessions.clearActiveSession()
            self._context.removeJobTag(self.name)

    def cancel(self) -> None:
        with suppress(Exception):  # a JVM that has ended has no jobs
            self._context.cancelJobsWithTag(self.name)

    def end(self, *, orderly: bool) -> None:
        """The command has left, or it has ended in another way: then what it has under way ends at its next job. A
        commit that is being written lands or not, as that of any killed process: the slice's next run finds out."""
        self.cancel()
        with suppress(Exception):
            self._server.shutdown()
        self._end_workers()
        self._forget_listener()
        if orderly:
            return
        until = time.monotonic() + _LATE_JOBS_S
        while time.monotonic() < until:
            time.sleep(_AGAIN_S)
            self.cancel()

    def _forget_listener(self) -> None:
        """Each session without a parent has its own, which would be told of every later command's queries."""
        with suppress(Exception):
            listener = self._session.sharedState().statusStore().listener()
            if listener.isDefined():
                self._context._jsc.sc().removeSparkListener(listener.get())

    def _end_workers(self) -> None:
        """The processes that its UDFs ran in. Spark keeps them for ever, and has no call to end them."""
        with suppress(Exception):
            jvm: Any = self._context._jvm
            environment = jvm.org.apache.spark.SparkEnv.get()
            field = environment.getClass().getDeclaredField("pythonWorkers")
            field.setAccessible(True)
            workers = jvm.scala.jdk.javaapi.CollectionConverters.asJava(field.get(environment))
            for key in [each for each in workers.keySet() if self.name in each.envVars().toString()]:
                workers.remove(key).stop()
