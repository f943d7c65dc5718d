"""What a worker process says and hears: one JSON line each. Imported by the workers that lie beside it."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from twice.core.failure.failpoints import Point, SendPoint, armed


def say(**answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def pausing(point: str | None) -> AbstractContextManager[None]:
    """At this point say so, and wait for any line."""
    if point is None:
        return nullcontext()

    def pause(passed: Point | SendPoint) -> None:
        if passed.value == point:
            say(paused=point)
            sys.stdin.readline()

    return armed(pause)
