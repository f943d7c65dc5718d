"""What a command and a keeper say to each other: lines of JSON over a loopback connection.

A command keeps its line open as long as it lives. However it ends, its operating system closes the line, and the
keeper stops what the command has left running.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
from contextlib import suppress
from typing import Any

from twice.engine.warm.keeper_file import KeeperFile

LOOPBACK = "127.0.0.1"
ASKS, ANSWERS = "a command asks", "the keeper answers"
PROOF = "proof"
PATIENCE_S = 20.0
"""A keeper answers at once; one that was stopped (SIGSTOP) never does."""


class Line:
    """One end. Several threads may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("r", encoding="utf-8")
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self._sending:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """None when the other end is gone."""
        with suppress(OSError, ValueError):
            text = self._file.readline()
            if text.endswith("\n"):
                received = json.loads(text)
                return received if isinstance(received, dict) else None
        return None

    def is_open(self) -> bool:
        """Whether the other end is still there, as far as this machine knows. For an end that reads nothing else."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def wait_without_end(self) -> None:
        self._connection.settimeout(None)

    def hang_up(self) -> None:
        """For another thread than the one that reads: that one reads the end."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.hang_up()
        self._file.close()
        self._connection.close()


def is_listening(kept: KeeperFile) -> bool:
    """Until a keeper's very end somebody is at its port."""
    try:
        socket.create_connection((LOOPBACK, kept.port), PATIENCE_S).close()
    except OSError:
        return False
    return True


def ask(kept: KeeperFile, **question: Any) -> tuple[Line, dict[str, Any]] | None:
    """The keeper's answer and the open line; None where no keeper answers. The key is not said, and who answers has to
    have it too: the port of a keeper that was killed may be another user's by now."""
    try:
        line = Line(socket.create_connection((LOOPBACK, kept.port), PATIENCE_S))
    except OSError:
        return None
    with suppress(OSError):
        once = secrets.token_hex(32)
        line.send({"once": once, PROOF: proof(kept.key, ASKS, once), **question})
        answer = line.receive()
        if answer is not None and is_proof(answer.pop(PROOF, None), kept.key, ANSWERS, once):
            line.wait_without_end()
            return line, answer
    line.close()
    return None


def proof(key: str, who: str, once: object) -> str:
    """That whoever sends it has the key; `once` is another one each time."""
    return hmac.digest(key.encode(), f"{who} {once}".encode(), "sha256").hex()


def is_proof(given: object, key: str, who: str, once: object) -> bool:
    return hmac.compare_digest(str(given).encode(), proof(key, who, once).encode())
