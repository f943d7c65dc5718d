"""Who holds a lease: a process of a machine, told so that another process there can see that it is gone."""

from __future__ import annotations

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")


def this_process() -> str:
    """`host/place:pid`, and where Linux says so the moment it started: process numbers are used again."""
    started = _started(os.getpid())
    return f"{_host()}:{os.getpid()}" + (f":{started}" if started else "")


def is_gone(holder: str) -> bool:
    """Only True if it is certain: a process that this one could see, and that has ended. Elsewhere the lease decides.

    To be wrong here would cost work, not rows (the target lets one of two win), but it could send an effect twice.
    """
    host, _, process = holder.partition(":")
    pid, _, started = process.partition(":")
    if "/" not in host or host != _host() or not started or not pid.isdecimal():
        return False
    return _started(int(pid)) != started


def _host() -> str:
    place = _place()
    return f"{socket.gethostname()}/{place}" if place else socket.gethostname()


@cache
def _place() -> str | None:
    """Since when this machine runs, and whose process numbers ours is one of. A host's name says neither: two pods may
    share one, and after a restart of the machine the same number means another process. None without Linux."""
    try:
        told = f"{_BOOT.read_text().strip()} {_PROCESSES.readlink()}"
    except OSError:
        return None
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _started(pid: int) -> str | None:
    """In clock ticks since the machine was started; None if there is no such process, or no Linux."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
