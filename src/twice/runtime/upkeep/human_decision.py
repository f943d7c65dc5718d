"""What a person decides of tables and slices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HumanDecision:
    """Who decided it, and why. Kept in the ledger; of a takeover in the table's commit, too."""

    by: str
    reason: str
