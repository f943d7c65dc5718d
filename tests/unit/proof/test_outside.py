"""Nothing leaves while a task's own code is watched."""

from __future__ import annotations

import socket
import threading
import urllib.request
from contextlib import suppress
from urllib.error import URLError

import pytest

from twice.proof.outside import Refused, watched


def test_a_request_is_refused_before_it_leaves_and_is_remembered_even_if_the_code_hides_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        receiver.settimeout(0.2)
        port = receiver.getsockname()[1]
        with watched() as calls, suppress(URLError, Refused):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/pay", timeout=1)
        assert calls == [f"127.0.0.1:{port}"]
        with pytest.raises(TimeoutError):
            receiver.accept()


def test_a_plain_socket_to_another_machine_is_refused() -> None:
    with watched() as calls, socket.socket() as plain, pytest.raises(Refused, match="a proof lets nothing out"):
        plain.connect(("192.0.2.1", 443))
    assert calls == ["192.0.2.1:443"]


def test_what_spark_says_to_its_own_jvm_on_this_machine_passes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as jvm, watched() as calls:
        socket.create_connection(jvm.getsockname(), timeout=1).close()
    assert calls == []


def test_other_threads_and_later_calls_are_not_watched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        reached = []

        def call() -> None:
            with socket.create_connection(receiver.getsockname(), timeout=1):
                reached.append(True)

        with watched():
            other = threading.Thread(target=call)
            other.start()
            other.join()
        assert reached == [True]
