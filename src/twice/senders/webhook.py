"""A POST to a URL. With a key, the receiver acts once however often it is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from twice.core.effect import Effect, Message, Result, rendered
from twice.core.outbox import Answer
from twice.core.ports import Letter
from twice.senders.http import Http, Reply, meaning
from twice.senders.redaction import Veil

KEY = "Idempotency-Key"


@dataclass(frozen=True)
class WebhookSender:
    http: Http

    def compose(self, effect: Effect, result: Result, key: str, at: datetime) -> Message:  # noqa: ARG002
        body = rendered(effect.parts["body"], result)
        text = isinstance(body, str)
        kind = "text/plain; charset=utf-8" if text else "application/json"
        named = {name.lower() for name in effect.headers}
        headers = {**({} if "content-type" in named else {"Content-Type": kind}), **effect.headers}
        # Keys sorted: the same result gives the same bytes.
        return Message(effect.to, body if text else json.dumps(body, sort_keys=True, default=str), headers)

    def send(self, letter: Letter, leaving: Callable[[], None]) -> Answer:
        veil = Veil()
        url = veil.reveal(letter.message.to[0], "the webhook's URL")
        headers = veil.reveal_all(letter.message.headers, "the webhook's header")
        if letter.keyed:
            headers[KEY] = letter.key
        reply = self.http.post(url, letter.message.body.encode(), headers, leaving, veil)
        return meaning(reply, letter.keyed, veil) if isinstance(reply, Reply) else reply
