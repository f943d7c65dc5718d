"""A ledger's clock that can be put forward, so that no test waits for a lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from twice.core.ports.clock import SYSTEM_CLOCK


@dataclass
class LateClock:
    ahead: timedelta = timedelta(0)

    def now(self) -> datetime:
        return SYSTEM_CLOCK.now() + self.ahead

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def pass_an_hour(self) -> None:
        self.ahead += timedelta(hours=1)
