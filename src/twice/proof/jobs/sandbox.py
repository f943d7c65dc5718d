"""Where a job that knows nothing of twice is played: a copy of its warehouse's folder (the user's files are only read),
and a placeholder for receivers on this machine.

A proof must not reach a service of the user's, and a job that posts would fail at a refusal. So while the job runs,
every connection to a loopback address goes to a server of this process, which answers 200 to everything.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from twice.core.hints import hint, option
from twice.core.results.proof import Difference
from twice.engine.frames.compare import compare
from twice.errors import UsageError
from twice.proof.enclosure.hook import caller, loopback


def copy_warehouse(source: Path, to: Path, only_writable: Path | None = None) -> None:
    """Every file is copied, but for data files where the system lets nobody write outside of `only_writable`: those of
    the user become symbolic links. Never hard links: a job that writes into a file in place would write the user's."""

    def copy(one: str, other: str) -> str:
        real = Path(os.path.realpath(one))
        if only_writable is None or real.suffix != ".parquet" or real.is_relative_to(only_writable):
            return str(shutil.copy2(one, other))
        Path(other).symlink_to(real)
        return other

    if source.exists():
        shutil.copytree(source, to, copy_function=copy)
    else:
        to.mkdir(parents=True)


def table_folder(warehouse: Path, table: str) -> Path:
    """`shop.orders` and `shop/orders` are the folder shop/orders of the warehouse."""
    return warehouse.joinpath(*table.replace("/", ".").split("."))


def rows_of(session: SparkSession, warehouse: Path, table: str) -> DataFrame | None:
    """None if there is no such table. A folder without Delta's log is read as Parquet."""
    folder = table_folder(warehouse, table)
    if (folder / "_delta_log").is_dir():
        return session.read.format("delta").load(str(folder))
    if any(folder.rglob("*.parquet")):
        return session.read.parquet(str(folder))
    return None


def partitions_of(session: SparkSession, warehouse: Path, table: str) -> tuple[str, ...]:
    """The columns a table is partitioned by, as its folder shows them."""
    folder = table_folder(warehouse, table)
    if (folder / "_delta_log").is_dir():
        row = session.sql(f"DESCRIBE DETAIL delta.`{folder}`").first()
        return tuple(row["partitionColumns"]) if row is not None else ()
    return tuple(p.name.partition("=")[0] for p in sorted(folder.iterdir())[:1] if p.is_dir() and "=" in p.name)


def differing(
    session: SparkSession, clean: Path, other: Path, tables: Sequence[str]
) -> Iterator[tuple[str, Difference]]:
    """Each table that is another than after the clean run. One that is gone has lost all its rows."""
    for table in tables:
        one, two = rows_of(session, clean, table), rows_of(session, other, table)
        assert one is not None
        found = compare(one, one.limit(0) if two is None else two)
        if found is not None:
            yield table, found


def check_written(session: SparkSession, clean: Path, tables: Sequence[str], who: str, where: str = "") -> None:
    """A job or script that wrote elsewhere would be the same after anything."""
    for table in tables:
        if rows_of(session, clean, table) is None:
            raise UsageError(
                f"the {who} wrote no table {table}",
                where=where,
                fix="Name the folder it writes below the warehouse, and check that it uses the one it is given.",
            )


def check_tables(tables: Sequence[str]) -> None:
    if not tables:
        raise UsageError(
            "no table given: a job is proved by the tables it writes",
            fix=hint("Name them: {}.", option("table", ("shop.orders",))),
        )
    for table in tables:
        if ".." in table or table.startswith("/") or not table.strip("./"):
            raise UsageError(f"{table!r} is not a table of the warehouse", fix="Name it as shop.orders or shop/orders.")


_ANSWER = b"{}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(_ANSWER)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(_ANSWER)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - http.server's own names

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def placeholder_receiver() -> Iterator[None]:
    """Connections of the job's own code, in every thread; Spark's to its JVM pass."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
        own = ("127.0.0.1", server.server_port)

        def redirected(used: socket.socket, address: Any) -> Any:
            theirs = isinstance(address, tuple) and loopback(str(address[0]))
            if not theirs or caller(sys._getframe(2))[0] not in ("user", "library"):
                return address
            return own if used.family is socket.AF_INET else (f"::ffff:{own[0]}", own[1])

        def connected(self: socket.socket, address: Any) -> None:
            return connect(self, redirected(self, address))

        def connected_ex(self: socket.socket, address: Any) -> int:
            return connect_ex(self, redirected(self, address))

        patched: Any = socket.socket
        patched.connect, patched.connect_ex = connected, connected_ex
        try:
            yield
        finally:
            patched.connect, patched.connect_ex = connect, connect_ex
            server.shutdown()
