"""Tables in this process's memory: for projects whose engine computes with plain rows, so for tests only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twice.config import Settings
from twice.core.ports import Target
from twice.targets.registration import Location, Opening, Registration


@dataclass(frozen=True)
class MemorySystem:
    """All runs share the tables."""

    tables: Target

    def target(self, session: Any) -> Target:  # noqa: ARG002
        return self.tables

    def release(self, session: Any) -> None:
        """Nothing is open."""


def _open(opening: Opening) -> MemorySystem:  # noqa: ARG001 - there is nothing to set
    from twice.targets.memory.target import MemoryTarget

    return MemorySystem(MemoryTarget())


def _location(settings: Settings, name: str) -> Location:  # noqa: ARG001 - this process
    return Location("memory", "memory")


MEMORY = Registration("memory", open=_open, location=_location, frames="rows")
