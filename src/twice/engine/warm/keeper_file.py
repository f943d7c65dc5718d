"""The file by which commands find a keeper of a warm Spark: who reads it may have that user's code run, so it is the
user's alone."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class KeeperFile:
    """`port` is the keeper's on the loopback address, `key` what both ends prove to have. `fit`: digests under that key
    of all that its Spark was started with."""

    pid: int
    port: int
    key: str
    fit: Mapping[str, str]


def write(folder: Path, kept: KeeperFile) -> Path:
    """Dying here leaves a file that no command can use: nobody answers at its port, or nobody reads it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{kept.pid}.json"
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(kept), file)
    draft.replace(path)
    return path


def read_all(folder: Path) -> list[tuple[Path, KeeperFile]]:
    """Those that are this user's alone and whole, of processes that are alive."""
    found = [(path, _read(path)) for path in sorted(folder.glob("*.json"))]
    return [(path, kept) for path, kept in found if kept is not None and _may_live(kept.pid)]


def _read(path: Path) -> KeeperFile | None:
    with suppress(OSError, ValueError, TypeError, KeyError), open(path, opener=_without_waiting) as file:
        seen = os.fstat(file.fileno())
        if stat.S_ISREG(seen.st_mode) and seen.st_uid == os.getuid() and not stat.S_IMODE(seen.st_mode) & 0o077:
            read = json.load(file)
            return KeeperFile(**read) if _is_whole(read) else None
    return None


def _without_waiting(path: str, flags: int) -> int:
    """A pipe in its place would be waited for until somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _is_whole(read: Any) -> bool:
    kinds = {"pid": int, "port": int, "key": str, "fit": dict}
    return all(type(read[name]) is kind for name, kind in kinds.items()) and 0 < read["port"] < 1 << 16


def _may_live(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # no signal: only the question
    except (ProcessLookupError, OverflowError):  # nor is it a number of a process
        return False
    except OSError:
        return True
    return True


def sweep(folder: Path) -> None:
    """Delete what keepers that were killed have left. A second call finds nothing."""
    for path in folder.glob("*.json"):
        with suppress(OSError, ValueError):
            if not _may_live(int(path.stem)):
                path.unlink(missing_ok=True)
