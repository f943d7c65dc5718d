"""The process that keeps a Spark warm: it starts one, waits for commands, and ends when nobody has needed it for a
while."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from twice.engine.session.session import close, embedded
from twice.engine.session.spark_conf import SessionSettings
from twice.engine.warm import keeper_file
from twice.engine.warm.fit import digests, needs
from twice.engine.warm.keeper_file import KeeperFile
from twice.engine.warm.line import ANSWERS, ASKS, LOOPBACK, PATIENCE_S, PROOF, Line, is_proof, proof
from twice.engine.warm.served import Served
from twice.engine.warm.shared import changed, shared_state

_LOOK_S = 0.5
_FULL = 0.8
"""Of the memory that Java may use: what is still used of it when no command is attached belongs to nobody."""
_MIB = 1 << 20


@dataclass(frozen=True)
class Attached:
    """A command at work."""

    pid: int
    command: str
    line: Line


class Keeper:
    def __init__(self, session: SparkSession, key: str, idle_s: float) -> None:
        self._session = session
        self._key = key
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._attached: dict[int, Attached] = {}
        self._served = 0
        self._over = ""
        """Why it ends, once that is decided: no more commands are let in."""
        self._shared = shared_state(session.sparkContext)
        self._last_used = self._started = time.monotonic()
        self._ended = threading.Event()
        self._listening = socket.create_server((LOOPBACK, 0), backlog=32)

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def serve(self, file: Path) -> str:
        """Until it is no longer needed; why. `file`: by which commands find it; without it none can."""
        threading.Thread(target=self._accept, name="twice-warm", daemon=True).start()
        while not self._ended.wait(_LOOK_S):
            why = self._is_over(file)
            if why:
                return why
        return "asked to end"

    def end(self) -> None:
        self._ended.set()

    def hang_up(self) -> None:
        """Who is still attached sees it before its next call fails."""
        with self._lock:
            for each in self._attached.values():
                each.line.hang_up()

    def _is_over(self, file: Path) -> str:
        gateway: Any = SparkContext._gateway
        if gateway.proc.poll() is not None:
            return "its Java has ended"
        if self._has_stopped():
            return "its Spark has been stopped"
        with self._lock:
            if self._over:
                file.unlink(missing_ok=True)  # nobody asks in vain
            if self._attached:
                return ""
            if not self._over and time.monotonic() - self._last_used > self._idle_s:
                self._over = f"not used for {self._idle_s:.0f} s"
            if not self._over and not file.exists():
                self._over = "its file is gone"
            return self._over

    def _has_stopped(self) -> bool:
        """A command's code may do it, and so does Spark itself after some errors."""
        with suppress(Py4JError):
            return bool(self._session.sparkContext._jsc.sc().isStopped())
        return False

    def _take_no_more(self, why: str) -> None:
        """End as soon as no command is attached."""
        with self._lock:
            self._over = self._over or why

    def _accept(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)  # who says nothing is none of ours
        line = Line(connection)
        try:
            asked = line.receive()
            if asked is None or not is_proof(asked.get(PROOF), self._key, ASKS, asked.get("once")):
                return
            ours = {PROOF: proof(self._key, ANSWERS, asked.get("once"))}
            match asked.get("want"):
                case "session":
                    self._serve_one(line, asked, ours)
                case "status":
                    line.send({**ours, **self._status()})
                case "stop":
                    line.send({**ours, **self._stop(by_force=bool(asked.get("force")))})
        except OSError:  # who asked is gone
            return
        finally:
            line.close()

    def _serve_one(self, line: Line, asked: dict[str, Any], ours: dict[str, Any]) -> None:
        who = Attached(int(asked["pid"]), str(asked["command"]), line)
        with self._lock:
            if self._over:
                return  # it starts its own
            self._attached[id(line)] = who
            self._served += 1
        try:
            line.wait_without_end()
            served = Served(self._session, str(asked["warehouse"]))
            try:
                line.send({**ours, "port": served.port, "secret": served.secret, "client": served.name})
                while line.receive() is not None:  # it asks for one thing alone, until it is gone
                    served.cancel()
            finally:
                self._end(served)
        finally:
            with self._lock:
                del self._attached[id(line)]
                self._last_used = time.monotonic()
            self._end_if_full()

    def _end(self, served: Served) -> None:
        if not served.end():
            # Only the end of the JVM ends it. Who waits for a lock that it holds would wait for ever, and we for them.
            if served.holds_locks():
                self.end()
            self._take_no_more("a call of a command that has ended goes on")
        different = changed(self._shared, shared_state(self._session.sparkContext))
        if different:
            self._take_no_more(f"a command has changed what all share: {different}")

    def _end_if_full(self) -> None:
        """Even when what commands have left is freed."""
        runtime = self._runtime()
        most = _FULL * int(runtime.maxMemory())
        if self._attached or self._used(runtime) <= most:
            return
        gc.collect()  # py4j's objects are in rings, and keep alive what they stand for in Java
        runtime.gc()
        if self._used(runtime) > most:
            self._take_no_more("its memory is full")

    def _stop(self, *, by_force: bool) -> dict[str, Any]:
        with self._lock:
            at_work = self._at_work()
            ends = not at_work or by_force
            if ends:
                self._over = "asked to end"
        if ends:
            self.end()
        return {"attached": at_work, "ends": ends}

    def _status(self) -> dict[str, Any]:
        runtime = self._runtime()
        now = time.monotonic()
        with self._lock:
            return {
                "attached": self._at_work(),
                "served": self._served,
                "warm_s": round(now - self._started),
                "unused_s": 0 if self._attached else round(now - self._last_used),
                "idle_s": round(self._idle_s),
                "used_mib": self._used(runtime) // _MIB,
                "memory_mib": int(runtime.maxMemory()) // _MIB,
            }

    def _at_work(self) -> list[dict[str, Any]]:
        return [{"pid": each.pid, "command": each.command} for each in self._attached.values()]

    def _runtime(self) -> Any:
        jvm: Any = self._session._jvm
        return jvm.java.lang.Runtime.getRuntime()

    def _used(self, runtime: Any) -> int:
        return int(runtime.totalMemory()) - int(runtime.freeMemory())


def keep_warm(settings: SessionSettings, idle_s: float, ready: Any) -> str:
    """Start Spark and serve; returns why it ended. `ready` is called when commands can attach."""
    needed = needs(settings)  # before Spark: PySpark changes the environment of whoever starts it
    key = secrets.token_hex(32)
    assert settings.warm is not None
    session = embedded(replace(settings, folder=settings.warm))  # its files go with the one by which it is found
    keeper = Keeper(session, key, idle_s)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: keeper.end())
    session.range(1).count()
    keeper_file.sweep(settings.warm)
    file = keeper_file.write(settings.warm, KeeperFile(os.getpid(), keeper.port, key, digests(needed, key)))
    try:
        ready()
        return keeper.serve(file)
    finally:
        file.unlink(missing_ok=True)
        keeper.hang_up()
        close(session)
