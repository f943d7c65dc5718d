"""The real clock. Tests pass their own."""

from __future__ import annotations

import time
from datetime import datetime, timezone


class SystemClock:
    """The machine's clocks, as `core.ports.Clock`."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM_CLOCK = SystemClock()
