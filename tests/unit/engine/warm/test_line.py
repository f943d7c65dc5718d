"""The connection between a command and a keeper."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest

from twice.engine.warm import line as line_module
from twice.engine.warm.keeper_file import KeeperFile
from twice.engine.warm.line import ANSWERS, ASKS, LOOPBACK, PROOF, Line, ask, is_proof, proof


def listening() -> tuple[socket.socket, KeeperFile]:
    server = socket.create_server((LOOPBACK, 0))
    return server, KeeperFile(os.getpid(), server.getsockname()[1], "a key", {})


def answering(server: socket.socket, key: str, heard: list[Any]) -> threading.Thread:
    def answer() -> None:
        connection, _ = server.accept()
        other = Line(connection)
        asked = other.receive()
        heard.append(asked)
        assert asked is not None
        other.send({PROOF: proof(key, ANSWERS, asked["once"]), "port": 1})
        heard.append(other.receive())
        other.close()

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_who_asks_proves_that_it_has_the_key_and_gets_its_answer() -> None:
    server, kept = listening()
    heard: list[Any] = []
    thread = answering(server, kept.key, heard)
    answered = ask(kept, want="session")
    assert answered is not None
    line, answer = answered
    assert answer == {"port": 1}
    line.close()
    thread.join(10)
    server.close()
    asked, end = heard
    assert asked["want"] == "session" and is_proof(asked[PROOF], kept.key, ASKS, asked["once"]) and end is None
    assert kept.key not in str(asked), "whoever listens at a port that a killed keeper had would learn it"
    for other in (None, 7, "ö", proof("another key", ASKS, asked["once"]), proof(kept.key, ANSWERS, asked["once"])):
        assert not is_proof(other, kept.key, ASKS, asked["once"])


def test_who_answers_without_the_key_is_no_keeper() -> None:
    server, kept = listening()
    heard: list[Any] = []
    thread = answering(server, "another key", heard)
    assert ask(kept, want="session") is None
    thread.join(10)
    server.close()
    assert heard[1] is None, "the line to it is still open"


def test_where_nobody_answers_there_is_no_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    server, kept = listening()
    monkeypatch.setattr(line_module, "PATIENCE_S", 0.2)
    assert ask(kept, want="status") is None  # it listens and says nothing, as a stopped process does
    server.close()
    assert ask(kept, want="status") is None


def test_an_end_sees_that_the_other_one_has_gone() -> None:
    ours, theirs = socket.socketpair()
    line = Line(ours)
    assert line.is_open()
    theirs.close()
    assert not line.is_open()
    line.close()
    assert not line.is_open()


@pytest.mark.parametrize("text", [b"", b"{", b"[1]\n", b"not JSON\n"])
def test_half_a_line_or_none_of_ours_is_the_end(text: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(text)
    theirs.close()
    line = Line(ours)
    assert line.receive() is None
    line.close()
