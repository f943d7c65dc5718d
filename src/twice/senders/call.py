"""The user's own function. Only it knows what it did; how it ends is all that is known here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from twice.core.effect import Effect, Message, PublishedSlice
from twice.core.failure.user_code import USER_CODE_FAILS
from twice.core.ledger.outbox import Answer, Delivered, Doubtful, Refused
from twice.core.ports import OutgoingMessage
from twice.errors import EffectRefused
from twice.senders.redaction import Redaction


@dataclass(frozen=True)
class CallSender:
    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:  # noqa: ARG002
        return Message(effect.to, result.to_json())

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        if outgoing.function is None:
            return Refused("the task does not declare this call any more", for_good=True)
        result, redaction = PublishedSlice.from_json(outgoing.message.body), Redaction()
        leaving()
        try:
            receipt = outgoing.function(result, outgoing.key)
        except EffectRefused as error:
            wait = None if error.retry_after is None else timedelta(seconds=error.retry_after)
            return Refused(redaction.redact(error.what), error.for_good, wait)
        except USER_CODE_FAILS as error:
            return Doubtful(redaction.redact(f"{type(error).__name__}: {error}"))
        return Delivered(redaction.redact("returned" if receipt is None else str(receipt)))
