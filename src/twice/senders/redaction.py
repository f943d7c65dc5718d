"""Secrets of one delivery: revealed where they are sent, hidden in whatever is reported about it."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from urllib.parse import quote, unquote

from twice.config.secret import Secret
from twice.core.names.reference import HIDDEN, REFERENCE, hide_passwords

LONGEST = 300
"""How much of an answer is kept."""


class Redaction:
    """Remembers what it revealed, so that an answer that quotes it can be reported without it."""

    def __init__(self) -> None:
        self._revealed: set[str] = set()

    def reveal(self, text: str, where: str) -> str:
        """The text with its references resolved. DeclarationError if the environment lacks one."""
        shown = Secret(text, where).reveal()
        self._revealed |= {os.environ[name] for name in REFERENCE.findall(text)}
        return shown

    def reveal_all(self, texts: Mapping[str, str], where: str) -> dict[str, str]:
        return {name: self.reveal(text, f"{where} {name}") for name, text in texts.items()}

    def redact(self, text: str) -> str:
        """One line that may be shown and stored: no secret in it, and no longer than LONGEST."""
        for secret in sorted(self._revealed, key=len, reverse=True):
            for form in (secret, quote(secret, safe=""), unquote(secret), base64.b64encode(secret.encode()).decode()):
                text = text.replace(form, HIDDEN) if form else text
        line = " ".join(hide_passwords(text).split())
        return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
