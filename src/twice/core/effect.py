"""Effects as declarations: what is sent to other systems after a publish, once.

    effects=[slack("#finance", text=lambda result: f"{result.slice}: {result.rows} rows")]

Text and body may be functions of the stored `PublishedSlice`. They are called once, after the publish; what they return
is stored, and every try sends those very bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from twice.core.audit import AuditResult
from twice.core.names.reference import REFERENCE, is_reference, sounds_secret
from twice.errors import DeclarationError

Again = Literal["never", "on_restate", "when_changed"]
"""When an effect of a slice is sent once more: never, for every generation of it (of an incremental task: every mark
that it reaches, each once), or where a publish has other rows."""

EffectKind = Literal["slack", "email", "webhook", "call"]
"""What kind of receiver an effect has."""

Probe = Callable[[str], bool | None]
"""Given an effect's key: did it arrive? None where the receiver does not know."""

SAMPLE_LIMIT = 100
DAY = timedelta(hours=24)
"""How long receivers usually remember an idempotency key."""

_ADDRESS = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True)
class PublishedSlice:
    """What was published for one slice, as it is stored: what the functions of an effect are given.

    `sample` are the first rows in the order of their columns, as many as the effect asks for, of the version that was
    committed; values that JSON does not know are text.
    """

    project: str
    task: str
    slice: str
    generation: int
    rows: int | None
    fingerprint: str | None
    version: int | None
    audits: tuple[AuditResult, ...] = ()
    sample: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> PublishedSlice:
        stored = json.loads(text)
        audits = tuple(AuditResult(**audit) for audit in stored.pop("audits"))
        return cls(**{**stored, "audits": audits, "sample": tuple(stored["sample"])})


EffectText = str | Callable[[PublishedSlice], str]
"""A text, or a function that makes it of what was published."""

EffectBody = str | Mapping[str, Any] | Callable[[PublishedSlice], Any]
"""A text, or what goes out as JSON, or a function that makes either of what was published."""


@dataclass(frozen=True)
class Effect:
    """One message about each published slice. Use `slack`, `email`, `webhook` or `call`.

    `keyed`: the receiver acts once per key, so the same bytes may be sent again while it `remembers` the key. Nobody
    sends an effect without a key again by itself.
    """

    kind: EffectKind
    name: str
    to: tuple[str, ...]
    parts: Mapping[str, EffectBody]
    again: Again = "never"
    keyed: bool = False
    remembers: timedelta = DAY
    headers: Mapping[str, str] = field(default_factory=dict)
    sample: int = 0
    function: Callable[[PublishedSlice, str], Any] | None = None
    probe: Probe | None = None

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise DeclarationError("an effect needs a name that is not empty", fix='Write name="tell_finance".')
        if self.again not in ("never", "on_restate", "when_changed"):
            raise DeclarationError(
                f"again={self.again!r} is not known",
                where=self.name,
                fix='Say "never", "on_restate" or "when_changed".',
            )
        if not 0 <= self.sample <= SAMPLE_LIMIT:
            raise DeclarationError(
                f"sample={self.sample} is not a small sample", where=self.name, fix=f"Give 0 to {SAMPLE_LIMIT} rows."
            )
        if self.remembers <= timedelta(0):
            raise DeclarationError(
                f"key_lifetime={self.remembers} is over at once", where=self.name, fix="Write key_lifetime=hours(24)."
            )


@dataclass(frozen=True)
class Message:
    """What is stored of an effect and sent at every try. References (`${env:NAME}`) are resolved only while it is
    sent, and never in the body."""

    to: tuple[str, ...]
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Message:
        stored = json.loads(text)
        return cls(tuple(stored["to"]), stored["body"], stored["headers"])


def slack(
    channel: str,
    *,
    text: EffectText,
    name: str = "slack",
    again: Again = "never",
    sample: int = 0,
    probe: Probe | None = None,
) -> Effect:
    """A message to a Slack channel. Slack knows no key: in doubt, a person (or `probe`) decides."""
    if not channel.strip():
        raise DeclarationError("slack(''): the channel is empty", fix='Write slack("#finance", text=…).')
    return Effect("slack", name, (channel,), {"text": text}, again, sample=sample, probe=probe)


def email(
    to: str | Sequence[str],
    *,
    subject: EffectText,
    body: EffectText,
    name: str = "email",
    again: Again = "never",
    sample: int = 0,
    probe: Probe | None = None,
) -> Effect:
    """A plain-text e-mail. Mail knows no key: in doubt, a person (or `probe`) decides. Its Message-ID is made from
    the effect's key."""
    addresses = (to,) if isinstance(to, str) else tuple(to)
    wrong = [address for address in addresses if not _ADDRESS.fullmatch(address)]
    if wrong or not addresses:
        what = f"{wrong[0]!r} is not a valid address" if wrong else "the list of addresses is empty"
        raise DeclarationError(f"email: {what}", fix='Write email("finance@example.com", …).')
    return Effect("email", name, addresses, {"subject": subject, "body": body}, again, sample=sample, probe=probe)


def webhook(
    url: str,
    *,
    body: EffectBody,
    idempotency_key: bool = False,
    key_lifetime: timedelta = DAY,
    headers: Mapping[str, str] | None = None,
    name: str = "webhook",
    again: Again = "never",
    sample: int = 0,
    probe: Probe | None = None,
) -> Effect:
    """A POST. A body that is not text goes out as JSON.

    `idempotency_key=True` says that the receiver acts once per `Idempotency-Key` and remembers it for `key_lifetime`:
    then, and only then, it is sent again after a crash or a lost reply.
    """
    _check_url(url, name)
    for header, value in (headers or {}).items():
        _check_header(header, value, name)
    return Effect(
        "webhook",
        name,
        (url,),
        {"body": body},
        again,
        keyed=idempotency_key,
        remembers=key_lifetime,
        headers=dict(headers or {}),
        sample=sample,
        probe=probe,
    )


def call(
    function: Callable[[PublishedSlice, str], Any],
    *,
    keyed: bool,
    key_lifetime: timedelta = DAY,
    name: str | None = None,
    again: Again = "never",
    sample: int = 0,
    probe: Probe | None = None,
) -> Effect:
    """Your own function, called with the stored result and the key; what it returns is kept as the receipt.

    `keyed=True` says that calling it again with the same key does nothing more: then it is called again after a crash
    or an error. It raises `EffectRefused` to say that surely nothing happened; after any other error of a function
    without a key, a person decides.
    """
    title = name or str(getattr(function, "__name__", "call")).replace("<lambda>", "call")
    return Effect(
        "call", title, (title,), {}, again, keyed, key_lifetime, sample=sample, function=function, probe=probe
    )


def rendered(part: EffectBody, result: PublishedSlice) -> Any:
    """A part of an effect's text: as it is declared, or what its function makes of the result."""
    return part(result) if callable(part) else part


def tidy_effects(effects: Sequence[Any], where: str) -> tuple[Effect, ...]:
    """A task's effects, each under its own name: the name is part of the key."""
    names = [effect.name for effect in effects if isinstance(effect, Effect)]
    if len(names) != len(effects):
        raise DeclarationError("effects= takes slack(…), email(…), webhook(…) and call(…)", where=where)
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(
                f"two effects are named {name}", where=where, fix='Give one another name, e.g. name="tell_finance".'
            )
    return tuple(effects)


def _check_url(url: str, where: str) -> None:
    if is_reference(url):
        return  # read when it is sent, and checked then
    parts = urlsplit(REFERENCE.sub("x", url))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise DeclarationError(
            "the webhook's URL is not a valid http(s) URL", where=where, fix="Write https://host/path."
        )
    literal = urlsplit(url)
    secret = literal.password is not None and not is_reference(literal.password)
    secret |= any(sounds_secret(key) and not is_reference(value) for key, value in parse_qsl(literal.query))
    if secret:
        raise DeclarationError(
            "the webhook's URL holds a secret", where=where, fix="Put ${env:NAME} in its place, and set that variable."
        )


def _check_header(header: str, value: str, where: str) -> None:
    if not _HEADER_NAME.fullmatch(header) or "\n" in value or "\r" in value:
        raise DeclarationError(
            f"the header {header!r} cannot be sent", where=where, fix="One line, no blanks in names."
        )
    if sounds_secret(header) and not REFERENCE.search(value):
        raise DeclarationError(
            f"the header {header} holds a secret",
            where=where,
            fix=f'Refer to it: headers={{"{header}": "Bearer ${{env:NAME}}"}}.',
        )
