"""What Python code in a proof's processes may not do, refused at once and written into a journal with its line.

An audit hook sees connections and writes of every thread. It is set in every Python process of a proof (workers of
UDFs too) by `startup/sitecustomize.py`, which loads this file by its path: only the standard library is imported here.
It names what the enclosure (`enclose.py`) blocks, and is all that blocks where the system offers no enclosure. There
is no way to remove an audit hook: it is set in processes that a proof started, never in the user's own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any, Literal

VARIABLE = "TWICE_PROOF"
"""In the environment of every process of a proof: its `Guard` as JSON."""
JOURNAL = "refused.jsonl"
ENCLOSURE = "enclosure.json"
"""The same in a file of the scratch folder, for the process outside."""

Whose = Literal["user", "library", "spark", "twice", "python", "nobody"]

_PACKAGE = str(Path(__file__).resolve().parents[2])
_PYTHON = os.path.dirname(os.path.realpath(os.__file__))
_SEES_THROUGH = tuple(
    os.path.join(_PACKAGE, "proof", *path)
    for path in (("enclosure", "hook.py"), ("enclosure", "spark_writes.py"), ("jobs", "recorder.py"))
)
"""Files of twice that act for whoever called them."""
_WRITES = re.compile(r"[wax+]")
_OPENS_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_UNIX = 1
_STARTS = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.startfile"})


class RefusedCall(ConnectionError):
    """Raised into the user's code. A handler there may swallow it: the call is in the journal all the same."""


class RefusedWrite(PermissionError):
    """The same for a write."""


class RefusedSignal(PermissionError):
    """The same for a signal to a process that is not the proof's."""


@dataclass(frozen=True)
class Guard:
    """`scratch` may be written, nothing else. `network`, `files`, `sockets`, `processes`: whether the system itself
    keeps connections, writes, unix-domain sockets and signals in. `root`: paths are shown relative to it."""

    scratch: str
    root: str
    network: bool = False
    files: bool = False
    sockets: bool = False
    processes: bool = False

    def refuse(self, kind: str, what: str, frame: FrameType) -> None:
        """Write down what was tried, and where. Raises, always."""
        where = line_of(frame, self.root)
        line = json.dumps({"kind": kind, "what": what, "where": where}) + "\n"
        journal = os.open(os.path.join(self.scratch, JOURNAL), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(journal, line.encode())
        finally:
            os.close(journal)
        attempt = f"{what}, at {where}" if where else what
        if kind == "call":
            raise RefusedCall(f"a proof lets nothing out: {attempt} was not called")
        if kind == "signal":
            raise RefusedSignal(f"a proof signals no process of yours: refused {attempt}")
        raise RefusedWrite(f"a proof allows no side effects: refused {attempt}")

    def holds(self, path: str) -> bool:
        """Whether a path that is already resolved may be written."""
        shared = path.startswith("/dev/shm") and not self.files  # enclosed it is a folder of its own
        device = path.startswith(("/dev/", "/proc/self/")) and not shared
        return device or path == self.scratch or path.startswith(self.scratch + os.sep)


def from_environment() -> Guard | None:
    text = os.environ.get(VARIABLE)
    return Guard(**json.loads(text)) if text else None


def install(guard: Guard) -> None:
    """From now on, for as long as this process lives, in all its threads and in what it forks."""

    sys.addaudithook(lambda event, args: check_event(guard, event, args))


def check_event(guard: Guard, event: str, args: tuple[Any, ...]) -> None:
    """Raises if what is about to happen is refused."""
    listener = _LISTENERS.get(event)
    if listener is not None:
        listener(guard, event, args)


def caller(frame: FrameType | None, *, through_spark: bool = False) -> tuple[Whose, FrameType | None]:
    """Whose code acts: the innermost that is not Python's own (nor Spark's, if that is only passed through)."""
    while frame is not None:
        whose = _whose(frame.f_code.co_filename)
        passed = whose in ("python", "nobody") or (through_spark and whose == "spark")
        if not passed:
            return whose, frame
        frame = frame.f_back
    return "user", None  # a thread that was given a function of the standard library


def line_of(frame: FrameType | None, root: str) -> str:
    """`pipelines/orders.py:12`: the user's own line, or that of the library that acts for nobody we know."""
    own = next((each for each in _outward(frame) if _whose(each.f_code.co_filename) == "user"), None)
    found = own or next((each for each in _outward(frame) if _whose(each.f_code.co_filename) == "library"), None)
    if found is None:
        return ""
    file = found.f_code.co_filename
    short = os.path.relpath(file, root) if file.startswith(root + os.sep) else file
    return f"{short}:{found.f_lineno}"


def loopback(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in ("localhost", "")


def _connected(guard: Guard, _: str, args: tuple[Any, ...]) -> None:
    _check_address(guard, args[1])


def _check_address(guard: Guard, address: Any) -> None:
    frame = sys._getframe(1)
    whose, _ = caller(frame)
    if isinstance(address, (str, bytes)):
        path = os.fsdecode(address)
        if whose not in ("spark", "twice") and not guard.holds(os.path.realpath(path)):
            guard.refuse("call", f"the socket {path!r}", frame)
    elif isinstance(address, tuple) and len(address) >= 2:
        inside = loopback(str(address[0])) and whose in ("spark", "twice")
        if not inside:
            guard.refuse("call", f"{address[0]}:{address[1]}", frame)


def _asked_for(guard: Guard, _: str, args: tuple[Any, ...]) -> None:
    """A name is looked up: refused here, so that the proof names it and no name server is asked."""
    host = os.fsdecode(args[0]) if isinstance(args[0], (str, bytes)) else None
    if host is None or loopback(host) or host == os.uname().nodename:
        return
    frame = sys._getframe(1)
    if caller(frame)[0] not in ("spark", "twice"):
        guard.refuse("call", f"{host}:{args[1]}" if args[1] else host, frame)


def _made(guard: Guard, _: str, args: tuple[Any, ...]) -> None:
    """A unix-domain socket that the system will not give: recorded here, since its path will never be seen."""
    if not guard.sockets or args[1] != _UNIX:
        return
    frame = sys._getframe(1)
    maker = next((each for each in _outward(frame) if _whose(each.f_code.co_filename) != "nobody"), frame)
    wrapped = maker.f_locals.get("fileno") is not None  # one that is there already: half of a pair, as asyncio makes
    if not wrapped and caller(frame)[0] not in ("spark", "twice"):
        guard.refuse("call", "a unix-domain socket", frame)


def _opened(guard: Guard, _: str, args: tuple[Any, ...]) -> None:
    path, mode, flags = args
    writes = bool(_WRITES.search(mode)) if isinstance(mode, str) else bool(int(flags or 0) & _OPENS_TO_WRITE)
    if writes:
        _check_path(guard, path, follows=True)


def _changed(guard: Guard, event: str, args: tuple[Any, ...]) -> None:
    for path, folder, follows in _changes(event, args):
        _check_path(guard, path, folder, follows=follows)


def _changes(event: str, args: tuple[Any, ...]) -> Iterator[tuple[Any, int, bool]]:
    """Which paths an event changes, relative to which open folder (-1: none), and whether links are followed."""
    if event == "os.rename":
        yield args[0], args[2], False
        yield args[1], args[3], False
    elif event == "os.link":
        yield args[1], args[3], False
    elif event == "os.symlink":
        yield args[1], args[2], False
    elif event == "os.mkdir":
        if not os.path.isdir(args[0]):
            yield args[0], args[2], False
    elif event in ("os.remove", "os.rmdir"):
        yield args[0], args[1], False
    else:  # truncate, chmod, chown, utime
        yield args[0], args[-1] if event in ("os.chmod", "os.chown", "os.utime") else -1, True


def _check_path(guard: Guard, path: Any, folder: int = -1, *, follows: bool) -> None:
    if isinstance(path, int) or not isinstance(path, (str, bytes, os.PathLike)):
        return  # a file that is open already
    text = os.fsdecode(path)
    if folder != -1 and not os.path.isabs(text):
        text = os.path.join(_folder(folder), text)
    above, name = os.path.split(os.path.abspath(text))
    place = os.path.realpath(text) if follows else os.path.join(os.path.realpath(above), name)
    if not guard.holds(place):
        guard.refuse("file", place, sys._getframe(1))


def _folder(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # macOS
        import fcntl

        return os.fsdecode(fcntl.fcntl(descriptor, getattr(fcntl, "F_GETPATH", 50), b"\0" * 1024).rstrip(b"\0"))


def _started(guard: Guard, event: str, args: tuple[Any, ...]) -> None:
    """The hook does not see another program: without an enclosure it must not start."""
    frame = sys._getframe(1)
    if not (guard.network and guard.files) and caller(frame)[0] not in ("spark", "twice"):
        words = args[1] if event != "os.system" else args[0]
        listed = words if isinstance(words, (list, tuple)) else [words]
        command = " ".join(os.fsdecode(each) for each in listed if isinstance(each, (str, bytes, os.PathLike)))
        guard.refuse("process", command, frame)


def _signalled(guard: Guard, event: str, args: tuple[Any, ...]) -> None:
    target, number = int(args[0]), int(args[1])
    group = event == "os.killpg" or target < 0
    process = abs(target)
    everyone = event == "os.kill" and target == -1
    if number == 0 or target == 0 or (not everyone and _is_of_proof(guard, process)):
        return  # asks whether it is there; or is for the sender's own group
    frame = sys._getframe(1)
    if caller(frame)[0] not in ("spark", "twice"):
        to = f"the processes of group {process}" if group else f"process {process}"
        guard.refuse("signal", f"{_signal(number)} to {'every process' if everyone else to}", frame)


def _is_of_proof(guard: Guard, process: int) -> bool:
    """In a namespace whoever is there is; else whoever is in the session that the proof was started in, or comes from
    there."""
    while process > 1:
        try:
            if os.getsid(process) == os.getsid(0) or guard.processes:
                return True
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                process = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_LISTENERS: dict[str, Callable[[Guard, str, tuple[Any, ...]], None]] = {
    "socket.connect": _connected,
    "socket.sendto": _connected,
    "socket.sendmsg": _connected,
    "socket.getaddrinfo": _asked_for,
    "socket.__new__": _made,
    "open": _opened,
    **dict.fromkeys(("os.rename", "os.link", "os.symlink", "os.mkdir", "os.remove", "os.rmdir"), _changed),
    **dict.fromkeys(("os.truncate", "os.chmod", "os.chown", "os.utime"), _changed),
    **dict.fromkeys(_STARTS, _started),
    **dict.fromkeys(("os.kill", "os.killpg"), _signalled),
}

_KNOWN: dict[str, Whose] = {}


def _whose(file: str) -> Whose:
    found = _KNOWN.get(file)
    if found is None:
        found = _KNOWN[file] = _owner_of(file)
    return found


def _owner_of(file: str) -> Whose:
    if file.startswith("<frozen "):
        return "python"
    real = os.path.realpath(file)
    if real in _SEES_THROUGH:
        return "nobody"
    if real.startswith(_PACKAGE + os.sep):
        return "twice"
    if any(real.startswith(place + os.sep) for place in _spark_places()):
        return "spark"
    parts = file.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return "library"
    return "python" if real.startswith(_PYTHON + os.sep) else "user"


def _spark_places() -> Iterator[str]:
    """Where PySpark was loaded from; not any folder that somebody called so."""
    for name in ("pyspark", "py4j"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield os.path.dirname(os.path.realpath(file))


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
