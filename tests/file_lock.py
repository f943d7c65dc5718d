"""A file that a process holds locked for as long as it lives, and its children: is anybody left?"""

from __future__ import annotations

import fcntl
from typing import IO


def nobody_holds(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
