"""Calls to the outside world from inside a task's own code: refused during a proof, and remembered.

A proof runs the code a dozen times. What it says to the world by itself, beside its declared effects, would be said a
dozen times: so nothing leaves, and the proof says where it would have gone. Python's audit events tell; there is no
way to remove such a hook, so one is set at the first proof and asks whether the code of a task is being run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from ipaddress import ip_address
from typing import Any

_WATCHED: ContextVar[list[str] | None] = ContextVar("twice_outside", default=None)
_DIALS = frozenset({"http.client.connect", "smtplib.connect", "ftplib.connect"})


class Refused(ConnectionError):
    """Raised into the task's code. A handler there may swallow it: the call is remembered all the same."""


@contextmanager
def watched() -> Iterator[list[str]]:
    """The calls made in here, each as `host:port`, in the order they were tried. None of them leaves."""
    _install()
    calls: list[str] = []
    token = _WATCHED.set(calls)
    try:
        yield calls
    finally:
        _WATCHED.reset(token)


@cache
def _install() -> None:
    sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event not in _DIALS and event != "socket.connect":
        return
    calls = _WATCHED.get()
    called = None if calls is None else _called(event, args)
    if calls is not None and called is not None:
        calls.append(called)
        raise Refused(f"a proof lets nothing out: {called} was not called")


def _called(event: str, args: tuple[Any, ...]) -> str | None:
    """Where a call goes; None for what Spark does inside this machine."""
    if event in _DIALS:
        return f"{args[1]}:{args[2]}"
    address = args[1]
    if not isinstance(address, tuple) or len(address) < 2 or _loopback(str(address[0])):
        return None
    return f"{address[0]}:{address[1]}"


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
