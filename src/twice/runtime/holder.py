"""Who holds a lease: a process of a machine, told so that another process there can see that it is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> str:
    """`host:pid`, and where Linux says so the moment it started: process numbers are used again."""
    started = _started(os.getpid())
    return f"{socket.gethostname()}:{os.getpid()}" + (f":{started}" if started else "")


def is_gone(holder: str) -> bool:
    """Only True if it is certain: a process of this machine that has ended. Elsewhere the lease decides.

    To be wrong here would cost work, not rows: the target lets one of two win.
    """
    host, _, process = holder.partition(":")
    pid, _, started = process.partition(":")
    if host != socket.gethostname() or not started or not pid.isdecimal() or _started(os.getpid()) is None:
        return False
    return _started(int(pid)) != started


def _started(pid: int) -> str | None:
    """In clock ticks since the machine was started; None if there is no such process, or no Linux."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
