"""One writer at a time on a local file system, where Delta itself cannot promise it.

Two drivers that commit to `file:` can overwrite each other's commit file (exists, then rename). The lock is taken
inside the JVM that commits: a lock held by Python would die before an orphaned JVM does.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from twice.core.failure.interruption import uninterrupted

FOLDER = "_twice"
"""Beside the data, with a name that Delta's readers and VACUUM pass over."""

_POLL = 0.02


_FIRST_WORD_S = 60.0
"""So long a wait is normal: another run writes a big slice by the public path."""

_log = logging.getLogger("twice")

Waiting = Callable[[str, float], None]
"""What a waiting run does between two tries: it gets the lock's file, and for how many seconds it waits."""


@contextmanager
def locked(jvm: Any, path: str, waiting: Waiting | None = None) -> Iterator[None]:
    """Hold the table's lock; wait for it as long as its holder lives. No lock on other file systems.

    Dying here releases it: the operating system drops the locks of a JVM that ends, and who keeps a JVM for several
    processes those of a process that ended, once its last call there has ended. So a lock that cannot be taken is
    held by a living process, and to give up would make a failure of a slow neighbour (decision 0015).
    """
    file = _lock_file(jvm, path)
    if file is None:
        yield
        return
    begun, waiting, held = time.monotonic(), waiting or _message_now_and_then(), None
    try:
        while True:
            # An interrupt in the middle of the JVM's reply would leave the lock held, and nobody to release it.
            with uninterrupted():
                held = _try(jvm, file)
            if held is not None:
                break
            waiting(str(file), time.monotonic() - begun)
            time.sleep(_POLL)
        _sign(jvm, str(file))
        yield
    finally:
        if held is not None:
            with uninterrupted():
                held.release()


def _message_now_and_then() -> Waiting:
    """After a minute, two, four: that it waits, and for whom."""
    due = _FIRST_WORD_S

    def message(file: str, seconds: float) -> None:
        nonlocal due
        if seconds >= due:
            due *= 2
            _log.warning("waiting since %.0f s for %s, which %s holds", seconds, file, holder(file))

    return message


def holder(file: str) -> str:
    """Who took the lock last, by its own word."""
    try:
        return Path(f"{file}.holder").read_text(encoding="utf-8") or "another process"
    except OSError:
        return "another process"


def _sign(jvm: Any, file: str) -> None:
    """For people only: nothing rests on it."""
    with suppress(OSError):
        pid = jvm.java.lang.ProcessHandle.current().pid()
        Path(f"{file}.holder").write_text(f"process {pid} on {socket.gethostname()}", encoding="utf-8")


def _lock_file(jvm: Any, path: str) -> Any:
    """The lock's java.io.File, its folder made; None where the file system commits atomically by itself."""
    root = jvm.org.apache.hadoop.fs.Path(path)
    configuration = jvm.org.apache.spark.sql.SparkSession.active().sparkContext().hadoopConfiguration()
    if root.getFileSystem(configuration).getUri().getScheme() != "file":
        return None
    folder = jvm.java.io.File(root.toUri().getPath(), FOLDER)
    folder.mkdirs()
    return jvm.java.io.File(folder, "lock")


def _try(jvm: Any, file: Any) -> Any:
    """The lock, or None while somebody has it: another process (null) or another thread of this JVM."""
    channel, identity = _channel(jvm, file)
    try:
        held = channel.tryLock()
    except Py4JJavaError as error:
        if "OverlappingFileLockException" in str(error.java_exception.getClass().getName()):
            return None
        raise
    # A folder deleted and made again has another lock file: one held on the deleted file guards nothing.
    if held is not None and identity != _identity(jvm, file):
        held.release()
        return None
    return held


def _channel(jvm: Any, file: Any) -> tuple[Any, str]:
    """The one channel this JVM has to the lock file.

    It is never closed: POSIX drops all of a process's locks on a file when it closes any descriptor of it, so a
    thread that only looks and closes would take the lock away from the thread that holds it.
    """
    file.createNewFile()
    identity = _identity(jvm, file)
    kept = jvm.java.lang.System.getProperties()
    key = f"twice.lock {identity} {file}"
    found = kept.get(key)
    if found is None:
        opened = jvm.java.io.RandomAccessFile(file, "rw")
        found = kept.putIfAbsent(key, opened)
        if found is None:
            found = opened
        else:
            kept.put(f"{key} {uuid4()}", opened)  # lost the race to open; closing it would drop the winner's lock
    return found.getChannel(), identity


def _identity(jvm: Any, file: Any) -> str:
    attributes = jvm.java.nio.file.attribute.BasicFileAttributes
    try:
        view = jvm.java.nio.file.Files.readAttributes(file.toPath(), _class(jvm, attributes), _no_options(jvm))
    except Py4JJavaError:
        return "gone"
    return str(view.fileKey())


def _class(jvm: Any, of: Any) -> Any:
    return jvm.java.lang.Class.forName(of._fqn)


def _no_options(jvm: Any) -> Any:
    return jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.nio.file.LinkOption"), 0)
