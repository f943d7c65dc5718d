"""An e-mail by SMTP. Mail has no key: what counts is the dot at the end of the data, and the answer to it."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from twice.core.effect import Effect, Message, PublishedSlice, rendered
from twice.core.ledger.outbox import Answer, Delivered, Doubtful, Refused
from twice.core.ports import NotLeaving, OutgoingMessage
from twice.errors import DeclarationError
from twice.senders.address import PUBLIC_ONLY, Allowed, ascii_host
from twice.senders.redaction import Redaction

SECONDS = 30.0
_ASCII = SMTP.clone(cte_type="7bit")
_SHAPE = 'Set [effects] smtp = "smtp://user:${env:SMTP_PASSWORD}@mail.example.com:587" in twice.toml.'


@dataclass(frozen=True)
class EmailSender:
    """`server` is `smtp://…` (which must offer STARTTLS, unless its host is allowed) or `smtps://…`, with references
    for its secrets; `author` is the address that mail comes from."""

    server: str | None
    author: str | None
    allowed: Allowed = PUBLIC_ONLY
    certificates: str | None = None

    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:
        if self.author is None:
            raise DeclarationError(
                "no address that mail comes from is configured",
                fix='Set [effects] smtp_from = "pipelines@example.com" in twice.toml.',
            )
        mail = EmailMessage(policy=_ASCII)
        mail["From"] = self.author
        mail["To"] = ", ".join(effect.to)
        mail["Subject"] = str(rendered(effect.parts["subject"], result))
        mail["Date"] = format_datetime(at)
        # The same in every try: a person or a mail server that looks for it finds one message.
        mail["Message-ID"] = f"<{key[:32]}@{self.author.rpartition('@')[2]}>"
        mail.set_content(str(rendered(effect.parts["body"], result)))
        return Message(effect.to, mail.as_bytes().decode("ascii"), {"From": self.author})

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        """Nothing is accepted before the final dot, so whatever fails before it surely did not arrive."""
        redaction, progress = Redaction(), _Progress(leaving)
        server = redaction.reveal(_configured(self.server), "effects.smtp")
        try:
            return self._deliver(server, outgoing, progress)
        except NotLeaving:
            raise
        except smtplib.SMTPResponseException as error:
            answer = redaction.redact(f"SMTP {error.smtp_code} {_text(error.smtp_error)}")
            return Refused(answer, for_good=error.smtp_code >= 500)
        except (OSError, smtplib.SMTPException) as error:
            reason = redaction.redact(f"{type(error).__name__}: {error}")
            return Doubtful(reason) if progress.left else Refused(reason, for_good=isinstance(error, ssl.SSLError))

    def _deliver(self, server: str, outgoing: OutgoingMessage, progress: _Progress) -> Answer:
        smtp = self._connected(server)
        # Hung up without a QUIT: after DATA the server would read it as a line of the mail.
        with closing(smtp):
            _accepted(*smtp.mail(outgoing.message.headers["From"]))
            for address in outgoing.message.to:
                _accepted(*smtp.rcpt(address))  # one refused, and nobody gets it
            code, answer = smtp.docmd("DATA")
            if code != 354:
                _refuse(code, answer)
            progress.leave()
            smtp.send(_dotted(outgoing.message.body))
            code, answer = smtp.getreply()
            _accepted(code, answer)
            return Delivered(f"SMTP {code} {_text(answer)}"[:200])

    def _connected(self, server: str) -> smtplib.SMTP:
        parts = urlsplit(server)
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise DeclarationError("effects.smtp is not a valid smtp:// or smtps:// URL", fix=_SHAPE)
        try:
            host = ascii_host(parts.hostname)
        except ValueError as error:
            raise DeclarationError(f"effects.smtp is not a valid mail server: {error}", fix=_SHAPE) from None
        context = ssl.create_default_context(cafile=self.certificates)
        if parts.scheme == "smtps":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, parts.port or 465, timeout=SECONDS, context=context)
        else:
            smtp = smtplib.SMTP(host, parts.port or 587, timeout=SECONDS)
        try:
            if parts.scheme == "smtp" and not self.allowed.name(host):
                smtp.starttls(context=context)
            smtp.ehlo_or_helo_if_needed()
            if parts.username is not None:
                smtp.login(unquote(parts.username), unquote(parts.password or ""))
        except BaseException:
            smtp.close()
            raise
        return smtp


@dataclass
class _Progress:
    """Whether the data may have been taken."""

    leaving: Callable[[], None]
    left: bool = False

    def leave(self) -> None:
        self.leaving()
        self.left = True


def _configured(server: str | None) -> str:
    if server is None:
        raise DeclarationError("no mail server is configured", fix=_SHAPE)
    return server


def _accepted(code: int, answer: bytes) -> None:
    if not 200 <= code < 300:
        _refuse(code, answer)


def _refuse(code: int, answer: bytes) -> NoReturn:
    if code == -1:  # smtplib's code for a broken connection
        raise smtplib.SMTPServerDisconnected("the mail server hung up")
    raise smtplib.SMTPResponseException(code, answer)


def _dotted(message: str) -> bytes:
    """As DATA wants it: a line that begins with a dot gets one more, and a dot ends it."""
    lines = message.encode("ascii").replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    return b"\r\n".join(b"." + line if line.startswith(b".") else line for line in lines) + b"\r\n.\r\n"


def _text(answer: bytes | str) -> str:
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
