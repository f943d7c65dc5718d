"""A TCP proxy that cuts a line at a chosen moment: before, in the middle of or after the n-th piece that passes."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from enum import Enum


class Cut(Enum):
    BEFORE = 0.0
    HALF_WAY = 0.5
    AFTER = 1.0


class CuttingProxy:
    """Listens on loopback and passes everything on. Once armed, it counts the pieces of all lines, in both directions,
    and cuts every line at the chosen one; lines made afterwards are left alone."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._lines: list[tuple[socket.socket, socket.socket]] = []
        self._left: int | None = None
        self._how = Cut.BEFORE
        self.passed = 0
        self.cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, piece: int, how: Cut) -> None:
        with self._lock:
            self._left, self._how, self.passed, self.cut = piece, how, 0, False

    def close(self) -> None:
        self._listener.close()
        self._cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._lines.append((client, server))
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as selector, suppress(OSError, ValueError):
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select():
                    piece = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not piece or not self._passes(piece, key.data):
                        return
        self._close(client, server)

    def _passes(self, piece: bytes, to: socket.socket) -> bool:
        with self._lock:
            self.passed += 1
            if self._left is not None:
                self._left -= 1
            now = self._left == 0
        to.sendall(piece[: int(len(piece) * self._how.value)] if now else piece)
        if now:
            self.cut = True
            self._cut_all()
        return not now

    def _cut_all(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, []
        for line in lines:
            self._close(*line)

    def _close(self, *ends: socket.socket) -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class CommitProxy(CuttingProxy):
    """Cuts one COMMIT of PostgreSQL's protocol: of the bytes of its request and of its reply, in this order, only the
    first so many pass. `forever`: nobody gets through afterwards. `commits` counts those that were asked for."""

    MESSAGE = b"Q\0\0\0\x0bCOMMIT\0"
    REQUEST = len(MESSAGE)
    LENGTH = REQUEST + len(b"C\0\0\0\x0bCOMMIT\0") + len(b"Z\0\0\0\x05I")

    def __init__(self, port: int) -> None:
        self.commits = 0
        self._begun = self._forever = False
        super().__init__(port)

    def arm_commit(self, offset: int, forever: bool = False) -> None:
        with self._lock:
            self._left, self._forever, self._begun, self.cut, self.commits = offset, forever, False, False, 0

    def _passes(self, piece: bytes, to: socket.socket) -> bool:
        with self._lock:
            let, now = self._let_through(piece)
        to.sendall(let)
        if now:
            if self._forever:
                self._close(self._listener)  # with a shutdown: it is waited on by another thread
            self._cut_all()
        return not now

    def _let_through(self, piece: bytes) -> tuple[bytes, bool]:
        asked = piece.find(self.MESSAGE)
        self.commits += asked >= 0
        if self._left is None or self.cut or (asked < 0 and not self._begun):
            return piece, False
        start = 0 if self._begun else asked
        self._begun = True
        let = piece[: start + self._left]
        self._left -= len(let) - start
        self.cut = self._left == 0
        return let, self.cut
