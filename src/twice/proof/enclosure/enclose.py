"""Close a process in before it does anything, then become the command that is given.

    python -S enclose.py SCRATCH ROOT ASKER -- COMMAND…

On Linux, where the system permits it: a network of its own (nothing but a loopback of its own), every file system
read-only but SCRATCH, no unix-domain sockets, no sight of other processes. All of it holds for every process that comes
from this one: the JVM, the workers of UDFs, programs that user code starts. What is not permitted is left out, and the
command finds that in its environment; TWICE_PROOF_WITHOUT=network,files,sockets,processes leaves out what causes
trouble. Only the standard library is imported here: this runs before twice, in a process with one thread.

With processes of its own the command is a grandchild: this process stays outside, passes signals on, ends as the
command ends, and ends it when ASKER, the process that started all this, is gone. Between them the first process of the
namespace buries the dead; with it all the others end.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

NEW_MOUNTS, NEW_USER, NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
NEW_PROCESSES, NEW_IPC = 0x20000000, 0x08000000
PROC_FLAGS = 1 | 2 | 4 | 8  # MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
PRIVATE, BIND = 0x4000 | 0x40000, 0x1000  # MS_REC | MS_PRIVATE; MS_BIND
RECURSIVE, READ_ONLY = 0x8000, 1  # AT_RECURSIVE, MOUNT_ATTR_RDONLY
MOUNT_SETATTR, HERE = 442, -100
SET_FLAGS, UP = 0x8914, 0x41  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2
REFUSED, ALLOWED = 0x00050000 | 13, 0x7FFF0000  # EACCES
IO_URING_SETUP, UNIX = 425, 1
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The kernel's name of the machine, and its number of `socket`."""


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
LOOKS_EVERY_S = 1.0


def main(scratch: str, root: str, asker: str, command: list[str]) -> None:
    scratch = os.path.realpath(scratch)
    blocked = close_in(scratch, os.environ.get("TWICE_PROOF_WITHOUT", "").split(","))
    os.environ["TWICE_PROOF"] = json.dumps({"scratch": scratch, "root": root, **blocked})
    with open(os.path.join(scratch, "enclosure.json"), "w", encoding="utf-8") as file:  # for ASKER, if COMMAND dies
        file.write(os.environ["TWICE_PROOF"])
    if blocked["processes"]:
        _step_inside(scratch, int(asker))
    os.execv(command[0], command)


def close_in(scratch: str, without: Sequence[str] = ()) -> dict[str, bool]:
    """What the system keeps in from now on; processes, from the next fork on. Each way is tried in a child first: half
    of one cannot be undone."""
    blocked = dict.fromkeys(("network", "files", "sockets", "processes"), False)
    if sys.platform != "linux":
        return blocked
    blocked |= dict.fromkeys(_separated(scratch, without), True)
    return {**blocked, "sockets": "sockets" not in without and _done(_no_unix_sockets)}


def _separated(scratch: str, without: Sequence[str]) -> tuple[str, ...]:
    # With the privilege of root a namespace of users is not needed, and would hide files that others own.
    # Processes of its own need a /proc of their own, and so mounts: much that runs looks itself up there.
    wholes = (("network", "files", "processes"), ("network", "files"), ("network",), ("files", "processes"), ("files",))
    for user in (False, True) if os.geteuid() == 0 else (True,):
        for parts in wholes:
            if set(parts) & set(without):
                continue
            if _done_by_a_child(lambda: _try(scratch, user, parts)):  # noqa: B023 - called at once
                _separate(scratch, user, parts)
                return parts
    return ()


def _try(scratch: str, user: bool, parts: Sequence[str]) -> None:
    _separate(scratch, user, parts)
    if "processes" in parts and not _done_by_a_child(_own_proc):
        raise OSError("no /proc of its own")


def _done(step: Callable[[], None]) -> bool:
    try:
        step()
    except OSError:
        return False
    return True


def _done_by_a_child(step: Callable[[], None]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if _done(step) else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _separate(scratch: str, user: bool, parts: Sequence[str]) -> None:
    flags = (NEW_NETWORK if "network" in parts else 0) | (NEW_MOUNTS if "files" in parts else 0)
    flags |= NEW_PROCESSES | NEW_IPC if "processes" in parts else 0
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", flags | (NEW_USER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    if "network" in parts:
        _loopback_up()
    if "files" in parts:
        _all_read_only_but(scratch)


def _loopback_up() -> None:
    import fcntl
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))


def _all_read_only_but(scratch: str) -> None:
    place = os.fsencode(scratch)
    _call("mount", b"none", b"/", None, PRIVATE, None)
    _call("mount", place, place, None, BIND, None)
    _attributes(b"/", RECURSIVE, set_=READ_ONLY)
    _attributes(place, 0, clear=READ_ONLY)
    if os.path.isdir("/dev/shm"):  # memory that processes share: one of its own
        _call("mount", b"tmpfs", b"/dev/shm", b"tmpfs", 0, None)


def _own_proc() -> None:
    _call("mount", b"proc", b"/proc", b"proc", PROC_FLAGS, None)


def _step_inside(scratch: str, asker: int) -> None:
    """Returns in the process that becomes the command, and in no other. A signal that comes meanwhile waits."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *PASSED_ON})
    reading, writing = os.pipe()
    first = os.fork()
    if first != 0:
        os.close(writing)
        _stay_outside(first, reading, scratch, asker)
    _call("prctl", DIE_WITH_PARENT, int(signal.SIGKILL), 0, 0, 0)
    _own_proc()
    own = os.fork()
    if own != 0:
        _bury(own, writing)
    os.close(writing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, *PASSED_ON})


def _bury(own: int, writing: int) -> NoReturn:
    """The first process of the namespace: whoever has lost its parent is its child now."""
    while True:
        number = signal.sigwait({signal.SIGCHLD, *PASSED_ON})
        if number != signal.SIGCHLD:
            os.kill(own, number)
            continue
        while (dead := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if dead[0] == own:
                os.write(writing, str(dead[1]).encode())
                os._exit(0)


def _stay_outside(first: int, reading: int, scratch: str, asker: int) -> NoReturn:
    while os.waitpid(first, os.WNOHANG)[0] == 0:
        came = signal.sigtimedwait({signal.SIGCHLD, *PASSED_ON}, LOOKS_EVERY_S)
        if came is not None and came.si_signo in PASSED_ON:
            os.kill(first, came.si_signo)
        if os.getppid() != asker:
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
            shutil.rmtree(scratch, ignore_errors=True)  # but for itself, which is mounted here
            os._exit(1)
    _end_like(int(os.read(reading, 32) or b"9"))  # nothing was written: killed itself


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _attributes(path: bytes, flags: int, set_: int = 0, clear: int = 0) -> None:
    wanted = _MountAttributes(set_, clear, 0, 0)
    _call("syscall", MOUNT_SETATTR, HERE, path, flags, ctypes.byref(wanted), ctypes.sizeof(wanted))


def _no_unix_sockets() -> None:
    """A unix-domain socket is a path, and a read-only path can be connected to: none can be made at all. Pairs of
    them (`socketpair`) stay. `io_uring` would be a way around."""
    machine, number = MACHINES.get(platform.machine(), (None, None))
    if machine is None or number is None:
        raise OSError(f"unknown machine {platform.machine()}")
    load, equal, give = 0x20, 0x15, 0x06
    steps = (
        (load, 0, 0, 4),  # the machine
        (equal, 0, 6, machine),
        (load, 0, 0, 0),  # the call
        (equal, 3, 0, IO_URING_SETUP),
        (equal, 0, 3, number),
        (load, 0, 0, 16),  # its first argument
        (equal, 0, 1, UNIX),
        (give, 0, 0, REFUSED),
        (give, 0, 0, ALLOWED),
    )
    text = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = _Program(len(steps), text)
    _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call("prctl", SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0)


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


if __name__ == "__main__":
    cut = sys.argv.index("--")
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[cut + 1 :])
