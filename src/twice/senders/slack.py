"""A message to a Slack channel, by chat.postMessage. Slack has no key and reports in its body whether it was posted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from twice.core.effect import Effect, Message, PublishedSlice, rendered
from twice.core.ledger.outbox import Answer, Delivered, Doubtful, Refused
from twice.core.ports import OutgoingMessage
from twice.errors import DeclarationError
from twice.senders.http import Http, Reply, meaning
from twice.senders.redaction import Redaction

URL = "https://slack.com/api/chat.postMessage"

_MAY_HAVE_POSTED = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
"""Slack's own names for an error after which a part of the operation may have succeeded."""


@dataclass(frozen=True)
class SlackSender:
    """`token` as it is written: a reference, revealed while a message is sent."""

    http: Http
    token: str | None
    url: str = URL

    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:  # noqa: ARG002
        text = rendered(effect.parts["text"], result)
        return Message(effect.to, json.dumps({"channel": effect.to[0], "text": str(text)}, sort_keys=True))

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        if self.token is None:
            raise DeclarationError(
                "no token for Slack is configured",
                fix='Set [effects] slack_token = "${env:SLACK_TOKEN}" in twice.toml.',
            )
        redaction = Redaction()
        headers = {
            "Authorization": f"Bearer {redaction.reveal(self.token, 'effects.slack_token')}",
            "Content-Type": "application/json; charset=utf-8",
        }
        reply = self.http.post(self.url, outgoing.message.body.encode(), headers, leaving, redaction)
        if not isinstance(reply, Reply):
            return reply
        return _answer_of(reply, redaction) if reply.status == 200 else meaning(reply, False, redaction)


def _answer_of(reply: Reply, redaction: Redaction) -> Answer:
    try:
        body = json.loads(reply.text)
        posted, error = body["ok"] is True, str(body.get("error"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Doubtful(redaction.redact(f"Slack's answer is not in its usual form: {reply.text}"))
    if posted:
        return Delivered(redaction.redact(f"Slack message {body.get('ts')}"))
    answer = redaction.redact(f"Slack answered {error}")
    if error == "ratelimited":
        return Refused(answer, wait=reply.retry_after)
    return Doubtful(answer) if error in _MAY_HAVE_POSTED else Refused(answer, for_good=True)
