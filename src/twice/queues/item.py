"""An item of a work queue, and how ids and bodies are compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from twice.errors import UsageError

LONGEST_ID = 500
"""In bytes: both databases index it."""


class ItemStatus(str, Enum):
    """Where an item of a queue is."""

    PENDING = "pending"
    PROCESSING = "processing"
    DONE = "done"
    FAILED = "failed"  # a dead letter: it waits for a person


@dataclass(frozen=True)
class Item:
    """One piece of work. `fence` grows with each claim: it distinguishes a slow worker from the one that followed.
    `due`: when it may be claimed next; while it is processed, when the lease ends."""

    id: str
    body: Any
    status: ItemStatus
    attempts: int
    fence: int
    due: datetime
    began: datetime | None = None
    holder: str | None = None
    error: str | None = None


def checked_id(text: object, what: str) -> str:
    """An id that identifies. An empty one passes every null check, and then stands for everything without an id."""
    if not isinstance(text, str) or not text.strip():
        raise UsageError(
            f"{what} {text!r} identifies nothing", fix="Give the sender's own id, a text that is not blank."
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= LONGEST_ID or "\x00" in text:
        raise UsageError(
            f"{what} {text[:40]!r}… cannot be stored", fix=f"Use at most {LONGEST_ID} bytes of plain text, without NUL."
        )
    return text


def body_text(body: Any) -> str:
    """One text for one body, whatever the order of its keys."""
    try:
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the item's body is not JSON: {error}", fix="Put numbers, texts, lists and dicts.") from error


def body_hash(body: bytes | str) -> str:
    if not isinstance(body, bytes | str):
        raise UsageError(f"a message's body is bytes or text, not {type(body).__name__}", fix="Pass it as it came.")
    return hashlib.sha256(body.encode() if isinstance(body, str) else body).hexdigest()
