"""A POST to a URL. With a key, the receiver acts once however often it is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from twice.core.effect import Effect, Message, PublishedSlice, rendered
from twice.core.ledger.outbox import Answer
from twice.core.ports import OutgoingMessage
from twice.senders.http import Http, Reply, meaning
from twice.senders.redaction import Redaction

KEY = "Idempotency-Key"


@dataclass(frozen=True)
class WebhookSender:
    http: Http

    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:  # noqa: ARG002
        body = rendered(effect.parts["body"], result)
        text = isinstance(body, str)
        kind = "text/plain; charset=utf-8" if text else "application/json"
        named = {name.lower() for name in effect.headers}
        headers = {**({} if "content-type" in named else {"Content-Type": kind}), **effect.headers}
        # Keys sorted: the same result gives the same bytes.
        return Message(effect.to, body if text else json.dumps(body, sort_keys=True, default=str), headers)

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        redaction = Redaction()
        url = redaction.reveal(outgoing.message.to[0], "the webhook's URL")
        headers = redaction.reveal_all(outgoing.message.headers, "the webhook's header")
        if outgoing.keyed:
            headers[KEY] = outgoing.key
        reply = self.http.post(url, outgoing.message.body.encode(), headers, leaving, redaction)
        return meaning(reply, outgoing.keyed, redaction) if isinstance(reply, Reply) else reply
