"""What a keeper has in its JVM for one attached command: a session and a door of its own, and how both go again."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from twice.engine.warm.line import LOOPBACK

_AGAIN_S = 0.05
_PATIENCE_S = 10.0
_MONITOR = "PythonWorkerFactory$MonitorThread"


class Served:
    """Its session shares nothing with another command's but Spark itself: catalog, views, caches and settings are its
    own. The threads that serve it inherit a tag, and so does every job that they start."""

    def __init__(self, base: SparkSession, warehouse: str) -> None:
        self._context = base.sparkContext
        self.name = f"twice-warm-{uuid4().hex}"
        self.secret = secrets.token_hex(32)
        jvm: Any = base._jvm
        self._jvm = jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # a folder may have been deleted and made again
        options = jvm.java.util.HashMap()
        options.put("spark.sql.warehouse.dir", warehouse)
        self._session = jvm.org.apache.spark.sql.classic.SparkSession(self._context._jsc.sc(), options)
        builder = getattr(jvm.py4j, "ClientServer$ClientServerBuilder")(self._session).authToken(self.secret)
        address = jvm.java.net.InetAddress.getByName(LOOPBACK)
        self._server = builder.javaAddress(address).javaPort(0).autoStartJavaServer(False).build()
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

    def end(self) -> bool:
        """The command has left, or it has ended in another way: then what it has under way ends at its next job. A
        commit that is being written lands or not, as that of any killed process: the slice's next run finds out.
        False: a call of it goes on, for longer than one that ends by itself."""
        self._end_streams()
        until = time.monotonic() + _PATIENCE_S
        while (calling := self._is_calling()) and time.monotonic() < until:
            self.cancel()
            time.sleep(_AGAIN_S)
        if not calling:
            self._release_locks()
            with suppress(Exception):
                self._server.shutdown()
        self._end_workers()
        self._empty_cache()
        self._forget_listener()
        return not calling

    def _end_streams(self) -> None:
        """They have threads of their own, which end with a JVM and with nothing else."""
        with suppress(Exception):
            streams = self._session.sharedState().activeStreamingQueries()
            for stream in self._jvm.java.util.ArrayList(streams.values()):
                with suppress(Exception):
                    stream.stop()

    def _is_calling(self) -> bool:
        """A thread of the JVM that the command has asked for something goes on until that is done."""
        with suppress(Exception):
            kind = self._jvm.java.lang.Class.forName("py4j.GatewayServer")
            connections = kind.getDeclaredField("connections")
            connections.setAccessible(True)
            return not connections.get(self._server.getJavaServer()).isEmpty()
        return False

    def _release_locks(self) -> None:
        """Those that the command was given and could not give back: the operating system does it only when the JVM
        ends. Not before its last call has ended, which may be a commit under such a lock."""
        with suppress(Exception):
            for lock in self._locks():
                lock.release()

    def holds_locks(self) -> bool:
        with suppress(Exception):
            return any(lock.isValid() for lock in self._locks())
        return False

    def _locks(self) -> list[Any]:
        kind = self._jvm.java.lang.Class.forName("java.nio.channels.FileLock")
        given = self._jvm.java.util.ArrayList(self._server.getJavaServer().getGateway().getBindings().values())
        return [each for each in given if kind.isInstance(each)]

    def _forget_listener(self) -> None:
        """Each session without a parent has its own, which would be told of every later command's queries."""
        with suppress(Exception):
            listener = self._session.sharedState().statusStore().listener()
            if listener.isDefined():
                self._context._jsc.sc().removeSparkListener(listener.get())

    def _empty_cache(self) -> None:
        """Nobody else can use it, and it would take memory until Java happens to notice."""
        with suppress(Exception):
            self._session.sharedState().cacheManager().clearCache()

    def _end_workers(self) -> None:
        """The processes that its UDFs ran in. Spark keeps them for ever, and has no call to end them."""
        with suppress(Exception):
            environment = self._jvm.org.apache.spark.SparkEnv.get()
            field = environment.getClass().getDeclaredField("pythonWorkers")
            field.setAccessible(True)
            workers = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(field.get(environment))
            for key in [each for each in workers.keySet() if self.name in each.envVars().toString()]:
                ended = workers.remove(key)
                ended.stop()
                self._end_monitor(ended)

    def _end_monitor(self, workers: Any) -> None:
        """The thread that looks after idle ones, which looks for ever."""
        for thread in self._jvm.java.util.ArrayList(self._jvm.java.lang.Thread.getAllStackTraces().keySet()):
            kind = thread.getClass()
            if kind.getName().endswith(_MONITOR):
                whose = kind.getDeclaredField("$outer")
                whose.setAccessible(True)
                if whose.get(thread).equals(workers):
                    thread.interrupt()
