"""A placeholder for a receiver on this machine: a plain job's request reaches it in place of the real one.

A proof must not reach a service of the user's, and a job that posts would fail at a refusal. So while the job runs,
every connection to a loopback address goes to a server of this process, which answers 200 to everything.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from twice.proof.enclosure.hook import caller, loopback

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
