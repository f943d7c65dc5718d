"""A message to a Slack channel, by chat.postMessage. Slack knows no key and says in the body whether it was posted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from twice.core.effect import Effect, Message, PublishedSlice, rendered
from twice.core.outbox import Answer, Delivered, Doubtful, Refused
from twice.core.ports import OutgoingMessage
from twice.errors import DeclarationError
from twice.senders.http import Http, Reply, meaning
from twice.senders.redaction import Redaction

URL = "https://slack.com/api/chat.postMessage"

_MAY_HAVE_POSTED = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
"""Slack's own words for an error after which a part of the operation may have succeeded."""


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
        return _said(reply, redaction) if reply.status == 200 else meaning(reply, False, redaction)


def _said(reply: Reply, redaction: Redaction) -> Answer:
    try:
        body = json.loads(reply.text)
        posted, error = body["ok"] is True, str(body.get("error"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Doubtful(redaction.over(f"Slack answered what is not its form: {reply.text}"))
    if posted:
        return Delivered(redaction.over(f"Slack message {body.get('ts')}"))
    told = redaction.over(f"Slack says {error}")
    if error == "ratelimited":
        return Refused(told, wait=reply.retry_after)
    return Doubtful(told) if error in _MAY_HAVE_POSTED else Refused(told, for_good=True)
