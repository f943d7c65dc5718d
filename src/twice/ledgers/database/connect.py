"""From a URL to an engine that keeps the ledger's promises: durable commits, bounded waits, guarded writes."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, PoolProxiedConnection, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from twice.errors import EnvironmentProblem
from twice.ledgers.database.errors import plain_errors, problem

BUSY_SECONDS = 30.0
"""How long a writer waits for another one. Our transactions take milliseconds."""

MOUNTS = Path("/proc/mounts")

# fmt: off
NETWORK_FILE_SYSTEMS = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb", "smbfs", "smb2", "smb3", "afs", "coda", "ncpfs", "ceph", "glusterfs",
    "lustre", "gpfs", "beegfs", "panfs", "davfs", "davfs2", "sshfs", "s3fs", "gcsfuse", "rclone", "goofys",
    "smbnetfs", "curlftpfs",
})
# fmt: on

# A line that went dead is noticed within a minute, on our side and on the server's.
_LINE = {
    "application_name": "twice",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_SESSION = {
    "statement_timeout": f"{BUSY_SECONDS:.0f}s",
    # A process that was stopped in the middle of a transaction must not make the others wait for it.
    "idle_in_transaction_session_timeout": "15s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "timezone": "UTC",
}

_WRITES = "twice_writes"
_POSTGRES = "postgresql+psycopg"
_HOW = "sqlite:///path/to/ledger.db or postgresql://user:password@host/database"


def parse_url(text: str, it: str = "ledger") -> URL:
    """The URL, of a database we can use; `it` is what lives there. What was given is not repeated: it may hold a
    password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise EnvironmentProblem(f"the {it}'s URL cannot be read as a database URL", fix=f"Write {_HOW}.") from error
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername=_POSTGRES)
    if url.get_backend_name() == "postgresql" and url.drivername != _POSTGRES:
        raise problem(f"the {it} takes no driver {url.drivername}", url, "Write postgresql://… in its URL.", it)
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise problem(f"the {it} cannot live in {url.get_backend_name()!r}", url, f"Use {_HOW}.", it)
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise problem(
            f"the {it} would forget everything when the process ends: it is in memory",
            url,
            "Name a file: sqlite:///path/to/file.db.",
            it,
        )
    return url


def connect(url: URL, it: str = "ledger") -> Engine:
    """An engine for this URL. Opens nothing yet, except that a missing SQLite file is created, empty and private.
    Dying here leaves that empty file, which the next opening fills."""
    try:
        if url.get_backend_name() == "sqlite":
            return _connect_sqlite(url, it)
        return _connect_postgres(url)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise problem(
            f"the driver for {url.get_backend_name()} is not installed",
            url,
            'Install it: pip install "psycopg[binary]>=3.2".',
            it,
        ) from error


def for_writing(engine: Engine) -> Engine:
    """The same pool, for transactions that write: they take the write lock when they begin, not half-way."""
    return engine.execution_options(**{_WRITES: True})


def network_file_system(path: Path, mounts: str) -> str | None:
    """The type of the network file system that holds `path`, by the text of /proc/mounts; None if it is local."""
    found, depth = "", -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        # The kernel writes blanks and backslashes in paths as octal: `\040`.
        point = Path(fields[1].encode("latin-1", "replace").decode("unicode_escape"))
        # A later mount on the same folder hides the earlier one.
        if (path == point or point in path.parents) and len(point.parts) >= depth:
            found, depth = fields[2], len(point.parts)
    return found if found.removeprefix("fuse.") in NETWORK_FILE_SYSTEMS else None


def _connect_postgres(url: URL) -> Engine:
    """What the URL's own query sets wins. A run has two threads that write: itself and its heartbeat.
    A connection is not tried out before each use: one that died fails in the call, which is then made again."""
    settings = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
    theirs = url.query.get("options", "")
    options = f"{settings} {theirs if isinstance(theirs, str) else ' '.join(theirs)}".strip()
    arguments = {name: value for name, value in _LINE.items() if name not in url.query}
    return create_engine(
        url.difference_update_query(["options"]),
        hide_parameters=True,
        connect_args={**arguments, "options": options},
        pool_size=4,
        max_overflow=4,
        pool_timeout=BUSY_SECONDS,
    )


def _connect_sqlite(url: URL, it: str) -> Engine:
    path = Path(url.database or "").absolute()
    with plain_errors(url, it):
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_network(path, url, it)
        _create_private(path)
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin)
    try:
        with plain_errors(url, it):
            _use_wal(engine, url, it)
    except EnvironmentProblem:
        engine.dispose()
        raise
    return engine


def _refuse_network(path: Path, url: URL, it: str) -> None:
    mounts = MOUNTS.read_text(encoding="utf-8", errors="replace") if MOUNTS.exists() else ""
    kind = network_file_system(path.resolve(), mounts)
    if kind is not None:
        raise problem(
            f"an SQLite {it} cannot live on a network file system ({kind}): its locks do not hold there, "
            "and two processes could both believe they own the same work",
            url,
            f"Put the {it} on a local disk, or use PostgreSQL: postgresql://user:password@host/database.",
            it,
        )


def _create_private(path: Path) -> None:
    # SQLite gives the -wal and -shm files beside it the same mode.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare_connection(connection: Any, _record: Any) -> None:
    # The driver must not begin transactions by itself: it would begin a write without the lock.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = FULL")
    finally:
        cursor.close()


def _begin(connection: Connection) -> None:
    # A deferred transaction that turns into a writer fails at once when another one wrote meanwhile.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _use_wal(engine: Engine, url: URL, it: str) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    with closing(engine.raw_connection()) as connection:
        mode = _ask_for_wal(connection)
        # SQLite does not wait for the lock that this change needs, so we do. The file keeps the mode: only two
        # first openings at once ever meet here.
        while mode is None and time.monotonic() < deadline:
            time.sleep(0.02)
            mode = _ask_for_wal(connection)
    if mode != "wal":
        raise problem(
            f"SQLite cannot keep a write-ahead log there (it stays in mode {mode or 'locked'})",
            url,
            f"Put the {it} on a local disk; see who else holds the file (lsof).",
            it,
        )


def _ask_for_wal(connection: PoolProxiedConnection) -> str | None:
    """The mode the file is in now; None while another process is changing it."""
    with closing(connection.cursor()) as cursor:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                return None
            raise
        return str((cursor.fetchone() or ("",))[0])
