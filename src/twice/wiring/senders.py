"""The senders of a project, by kind of effect."""

from __future__ import annotations

from twice.config import EffectSettings
from twice.core.ports import Sender
from twice.senders.address import Allowed
from twice.senders.call import CallSender
from twice.senders.email import EmailSender
from twice.senders.http import Http
from twice.senders.slack import URL, SlackSender
from twice.senders.webhook import WebhookSender


def senders(settings: EffectSettings) -> dict[str, Sender]:
    allowed = Allowed(settings.allow)
    certificates = str(settings.certificates) if settings.certificates else None
    http = Http(allowed, certificates=certificates)
    return {
        "slack": SlackSender(http, settings.slack_token, settings.slack_url or URL),
        "email": EmailSender(settings.smtp, settings.smtp_from, allowed, certificates),
        "webhook": WebhookSender(http),
        "call": CallSender(),
    }
