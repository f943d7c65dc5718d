"""The main module of the process that keeps Spark warm for a project: `twice warm` starts it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from twice.config import load
from twice.engine.warm.fit import OF_TWICE
from twice.engine.warm.keeper import keep_warm
from twice.errors import TwiceError
from twice.wiring.open_project import session_settings

READY = b"ready"


def main(ready: str, root: str, profile: str, idle_s: str, memory: str) -> None:
    """Until nobody needs it any longer. What goes wrong before it is ready is said to whoever has started it."""
    pipe = int(ready)
    settings = session_settings(load(Path(root), profile or None))
    for name in [each for each in os.environ if each.startswith(OF_TWICE)]:
        del os.environ[name]
    try:
        why = keep_warm(replace(settings, memory=memory or settings.memory), float(idle_s), lambda: _say(pipe, READY))
    except TwiceError as error:
        _say(pipe, str(error).encode())
        raise
    sys.stdout.write(f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S}Z ended: {why}\n")


def _say(pipe: int, answer: bytes) -> None:
    os.write(pipe, answer)
    os.close(pipe)


if __name__ == "__main__":
    main(*sys.argv[1:])
