"""Senders: how an effect leaves, one for each kind of receiver. Every one passes tests/integration/senders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from twice.core.effect import Effect, Message, PublishedSlice
from twice.core.ledger.outbox import Answer


class NotLeaving(Exception):
    """This try may not go on: it was silent for too long, and others have settled it. Nothing was sent."""


@dataclass(frozen=True)
class OutgoingMessage:
    """What one try sends. `function` only where the effect is a call."""

    key: str
    keyed: bool
    message: Message
    function: Callable[[PublishedSlice, str], Any] | None = None


class Sender(Protocol):
    """One kind of receiver. A try is one request: no retries of its own, no redirects, and an end in time."""

    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:
        """The very bytes that every try sends. Calls the user's functions; changes nothing."""

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        """Send it once and distinguish: accepted, surely refused, in doubt. `leaving` is called when the next thing
        is the first byte (or what the receiver acts on); if it raises NotLeaving, nothing is sent. No secret is in
        the answer. Dying in here leaves doubt."""
