"""What a worker process reports and reads: one JSON line each. Imported by the workers next to it."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from twice.core.failure.failpoints import Point, SendPoint, armed


def report(**answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def pausing(point: str | None) -> AbstractContextManager[None]:
    """At this point report it, and wait for any line."""
    if point is None:
        return nullcontext()

    def pause(passed: Point | SendPoint) -> None:
        if passed.value == point:
            report(paused=point)
            sys.stdin.readline()

    return armed(pause)
