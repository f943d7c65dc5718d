"""Who holds a lease or a scratch folder: a process of a machine, named so that another process there can see that it
has ended."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")
_AS_FOLDER = str.maketrans({"/": "+", ":": "~", ",": "-"})  # Spark takes a comma for the end of a folder's name
_FROM_FOLDER = str.maketrans({"+": "/", "~": ":"})


def this_process() -> str:
    """`host/machine:pid`, and where Linux says so the moment it started: process numbers are used again."""
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
    return _has_ended(int(pid), started)


def scratch_name() -> str:
    """The name of this process's own folder for Spark's scratch files."""
    return this_process().translate(_AS_FOLDER)


def clear_scratch(folder: Path) -> int:
    """Delete the scratch folders of processes that are surely gone; how many. Those of other machines and of processes
    at work stay. A second call finds none. Dying here leaves the rest to the next call."""
    if not folder.is_dir():
        return 0
    left = [each for each in folder.iterdir() if each.is_dir() and is_gone(each.name.translate(_FROM_FOLDER))]
    for each in left:
        shutil.rmtree(each, ignore_errors=True)  # another gc may be at it
    return len(left)


def _host() -> str:
    machine = _machine()
    return f"{socket.gethostname()}/{machine}" if machine else socket.gethostname()


@cache
def _machine() -> str | None:
    """Since when this machine runs, and whose process numbers ours is one of. A host's name says neither: two pods may
    share one, and after a restart of the machine the same number means another process. None without Linux."""
    try:
        identity = f"{_BOOT.read_text().strip()} {_PROCESSES.readlink()}"
    except OSError:
        return None
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def _has_ended(pid: int, started: str) -> bool:
    try:
        return _start_of(_stat(pid)) != started
    except OSError:  # there is none, or this user may not look at it (/proc mounted with hidepid)
        return not _is_there(pid)


def _is_there(pid: int) -> bool:
    """Certain only where the answer is no."""
    try:
        os.kill(pid, 0)  # no signal: only the question
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _started(pid: int) -> str | None:
    """None if there is no such process, or no Linux."""
    try:
        return _start_of(_stat(pid))
    except OSError:
        return None


def _stat(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text()


def _start_of(stat: str) -> str | None:
    """In clock ticks since the machine was started; None of a process that has ended and is only still listed."""
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
