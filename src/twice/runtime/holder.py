"""Who holds a lease or a scratch folder: a process of a machine, named so that another process there can see that it
has ended."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import time
from datetime import timedelta
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")
LEFT_AFTER = timedelta(days=30)
"""What another machine or container has not touched for so long is not in use."""

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
    """The name of this process's own folder for Spark's scratch files: its holder, and since when the machine runs."""
    host, _, process = this_process().partition(":")
    boot = _boot()
    return f"{host}.{boot}:{process}".translate(_AS_FOLDER) if boot else this_process().translate(_AS_FOLDER)


def clear_scratch(folder: Path) -> int:
    """Delete the scratch folders of processes that are surely gone; how many. Those of processes at work stay, and
    those of other machines and containers until nothing was written there for a month. A second call finds none.
    Dying here leaves the rest to the next call."""
    if not folder.is_dir():
        return 0
    left = [each for each in folder.iterdir() if each.is_dir() and _is_left(each)]
    for each in left:
        shutil.rmtree(each, ignore_errors=True)  # another gc may be at it
    return len(left)


def _is_left(folder: Path) -> bool:
    """A process of this machine before it was started again is gone, too; a lease has a stricter rule, since the name
    of a host may be given to another one. Of others only their files tell."""
    host, _, process = folder.name.translate(_FROM_FOLDER).partition(":")
    machine, _, boot = host.rpartition("/")[2].partition(".")
    holder = f"{host.rpartition('/')[0]}/{machine}:{process}"
    if "/" not in host or not process:
        return False  # none of ours
    if f"{host.rpartition('/')[0]}/{machine}" == _host():
        return is_gone(holder)
    return _before_this_start(host.rpartition("/")[0], boot) or _untouched(folder)


def _before_this_start(host: str, boot: str) -> bool:
    if not boot or _boot() is None:
        return False
    return host == socket.gethostname() and boot != _boot()


def _untouched(folder: Path) -> bool:
    """Spark writes deep in it."""
    try:
        newest = max(each.lstat().st_mtime for each in (folder, *folder.rglob("*")))
    except OSError:  # somebody is at it
        return False
    return time.time() - newest > LEFT_AFTER.total_seconds()


@cache
def _boot() -> str | None:
    """Since when this machine runs. None without Linux."""
    try:
        return hashlib.sha256(_BOOT.read_text().strip().encode()).hexdigest()[:8]
    except OSError:
        return None


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
