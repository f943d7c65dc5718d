"""What a scenario saw."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.proof import Difference


@dataclass(frozen=True)
class Seen:
    """What was done, in words, and the first difference that showed."""

    reason: str
    difference: Difference | None = None
