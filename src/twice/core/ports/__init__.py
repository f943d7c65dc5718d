"""The ports: what the runtime needs from outside. One module each for targets, engines, senders, the ledger."""

from __future__ import annotations

from twice.core.ports.backfills import BackfillStore
from twice.core.ports.clock import Clock
from twice.core.ports.engine import (
    ALL_ROWS,
    ALLOWED,
    FUNCTION,
    PLAN,
    Engine,
    Leaf,
    Measured,
    Observed,
    Portion,
    Suspicion,
)
from twice.core.ports.frame import Column, Frame, Shape
from twice.core.ports.ledger import (
    AttemptHistory,
    Attempts,
    Claims,
    GenerationHistory,
    Inputs,
    Quarantine,
    RunLedger,
    RunRecords,
    UnassignedRecords,
)
from twice.core.ports.outbox import NotLeaving, Outbox, OutgoingMessage, Sender
from twice.core.ports.target import (
    ChangedRange,
    Foreign,
    Held,
    Landed,
    Lost,
    PreparedTable,
    Published,
    Staged,
    Target,
    Touched,
)

__all__ = [
    "ALLOWED",
    "ALL_ROWS",
    "FUNCTION",
    "PLAN",
    "AttemptHistory",
    "Attempts",
    "BackfillStore",
    "ChangedRange",
    "Claims",
    "Clock",
    "Column",
    "Engine",
    "Foreign",
    "Frame",
    "GenerationHistory",
    "Held",
    "Inputs",
    "Landed",
    "Leaf",
    "Lost",
    "Measured",
    "NotLeaving",
    "Observed",
    "Outbox",
    "OutgoingMessage",
    "Portion",
    "PreparedTable",
    "Published",
    "Quarantine",
    "RunLedger",
    "RunRecords",
    "Sender",
    "Shape",
    "Staged",
    "Suspicion",
    "Target",
    "Touched",
    "UnassignedRecords",
]
