"""Calls to the outside world from inside a task's own code: refused during a proof, and remembered.

A proof runs the code a dozen times. What it says to the world by itself, beside its declared effects, would be said a
dozen times: so nothing leaves, and the proof says where it would have gone. Python's audit events tell; there is no
way to remove such a hook, so one is set at the first proof and asks whether anyone listens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from ipaddress import ip_address
from typing import Any

Listener = Callable[[str, tuple[Any, ...]], None]
"""Gets every audit event of the code it listens to. What it raises is raised there."""

_LISTENER: ContextVar[Listener | None] = ContextVar("twice_outside", default=None)
_DIALS = frozenset({"http.client.connect", "smtplib.connect", "ftplib.connect"})


class Refused(ConnectionError):
    """Raised into the user's code. A handler there may swallow it: the call is remembered all the same."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    _install()
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def watched() -> Iterator[list[str]]:
    """The calls made in here, each as `host:port`, in the order they were tried. None of them leaves."""
    calls: list[str] = []

    def hear(event: str, args: tuple[Any, ...]) -> None:
        called = dialled(event, args)
        if called is not None:
            calls.append(called)
            raise refusal(called)

    with listening(hear):
        yield calls


def dialled(event: str, args: tuple[Any, ...]) -> str | None:
    """Where a call goes; None for what Spark does inside this machine, and for what is no call."""
    if event in _DIALS:
        return f"{args[1]}:{args[2]}"
    if event != "socket.connect":
        return None
    address = args[1]
    if not isinstance(address, tuple) or len(address) < 2 or loopback(str(address[0])):
        return None
    return f"{address[0]}:{address[1]}"


def loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refusal(called: str) -> Refused:
    return Refused(f"a proof lets nothing out: {called} was not called")


@cache
def _install() -> None:
    def hear(event: str, args: tuple[Any, ...]) -> None:
        listener = _LISTENER.get()
        if listener is not None:
            listener(event, args)

    sys.addaudithook(hear)
