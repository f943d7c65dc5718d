"""Real receivers on loopback: an HTTP server and a mail server that log what arrived and can misbehave."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller

KEY = "Idempotency-Key"


@dataclass(frozen=True)
class Arrival:
    """One request, read to its end. `acted`: the receiver did what it asks (a known key does nothing more)."""

    path: str
    headers: dict[str, str]
    body: bytes
    acted: bool

    @property
    def key(self) -> str | None:
        return self.headers.get(KEY)


@dataclass
class HttpReceiver:
    """Acts on a request, then answers as its next plan says (`ok` when there is none):

    a status · `reset` the connection without an answer · `hang` for ever · `drip` a header a byte at a time ·
    `echo` what it was sent · `(status, headers, body)`

    `together` holds the first requests back until so many have arrived at once.

    With a key it acts once: the first answer is remembered, another body under the same key is 422.
    """

    arrivals: list[Arrival] = field(default_factory=list)
    plans: deque[Any] = field(default_factory=deque)
    together: int = 0
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0
    port: int = 0
    scheme: str = "http"

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, bytes] = {}
        self._closing = threading.Event()
        self._together = threading.Event()

    def url(self, path: str = "/hook") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    def acted(self) -> Counter[str]:
        """How often it acted, by body."""
        return Counter(one.body.decode() for one in self.arrivals if one.acted)

    def arrive(self, path: str, headers: dict[str, str], body: bytes) -> Any:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            key, plan = headers.get(KEY), self.plans.popleft() if self.plans else "ok"
            status = plan[0] if isinstance(plan, tuple) else plan
            refused = plan == "echo" or (isinstance(status, int) and 300 <= status < 500)
            known = self._known.get(key) if key else None
            if known is not None and known != body:
                plan, refused = 422, True
            acted = not refused and known is None
            if key and acted:
                self._known[key] = body
            self.arrivals.append(Arrival(path, headers, body, acted))
            if self.at_once >= self.together:
                self._together.set()
        if self.together:
            self._together.wait(30)
        with self._lock:
            self.at_once -= 1
        return plan

    @contextmanager
    def running(self, context: ssl.SSLContext | None = None) -> Iterator[HttpReceiver]:
        server = _Server(("127.0.0.1", 0), _Handler)
        server.receiver = self
        if context is not None:
            self.scheme = "https"
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = server.server_address[1]
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._closing.set()
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingHTTPServer):
    receiver: HttpReceiver
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that died or hung up is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.receiver.connections += 1

    def do_POST(self) -> None:
        receiver = self.server.receiver
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        self.close_connection = True
        if len(body) < length:
            return  # its sender died in the middle of it: nothing to act on
        plan = receiver.arrive(self.path, dict(self.headers.items()), body)
        if plan == "reset":
            # Linger 0: the close is an RST, as from a machine that lost its power.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif plan == "hang":
            receiver._closing.wait(60)
        elif plan == "drip":
            self._drip(receiver)
        elif plan == "echo":
            text = json.dumps({"path": self.path, "headers": dict(self.headers.items())})
            self._answer(401, {}, text)
        else:
            status, headers, text = plan if isinstance(plan, tuple) else (200 if plan == "ok" else plan, {}, '{"id":7}')
            self._answer(status, headers, text)

    def _answer(self, status: int, headers: dict[str, str], text: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _drip(self, receiver: HttpReceiver) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            if receiver._closing.wait(0.05):
                return

    def log_message(self, format: str, *args: Any) -> None:
        """The arrivals are the log."""


@dataclass
class MailReceiver:
    """A mail server that keeps what it took. Its next plan: `reset` after the data, or an SMTP answer to it."""

    mails: list[Any] = field(default_factory=list)
    plans: deque[str] = field(default_factory=deque)
    unknown: set[str] = field(default_factory=set)
    port: int = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802
        if address in self.unknown:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        plan = self.plans.popleft() if self.plans else "250 queued as A1"
        if not plan.startswith(("4", "5")):
            self.mails.append(envelope)
        if plan == "reset":
            server.transport.abort()
            return "250 never received"
        return plan

    @contextmanager
    def running(self, context: ssl.SSLContext | None = None, **options: Any) -> Iterator[MailReceiver]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        controller = Controller(self, hostname="127.0.0.1", port=self.port, tls_context=context, **options)
        controller.start()
        try:
            yield self
        finally:
            controller.stop()
