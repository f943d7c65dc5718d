"""References to secrets: `${env:NAME}` stands for one and may be seen; what looks like a secret itself may not."""

from __future__ import annotations

import re

HIDDEN = "***"
REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")

_PASSWORD = re.compile(r"(?<=://)([^/@\s]*?):([^/@\s]*(?:@[^/@\s]*)*)@")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;\s]+)=([^&;\s]*)")
_SECRET_NAME = re.compile(
    r"secret|password|passwd|token|credential|authorization|api.?key|access.?key|private.?key", re.IGNORECASE
)


def sounds_secret(name: str) -> bool:
    """Whether a name (of a setting, a header, a parameter) means that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def is_reference(text: str) -> bool:
    """Whether it is nothing but references, which may be shown: they name a secret and hold none."""
    return not REFERENCE.sub("", text)


def hide_passwords(text: str) -> str:
    """Passwords of URLs and secret-sounding parameters replaced; `${env:NAME}` in their place may be seen."""

    def hidden(match: re.Match[str]) -> str:
        return match[0] if REFERENCE.fullmatch(match[2]) else f"{match[1]}:{HIDDEN}@"

    def hidden_parameter(match: re.Match[str]) -> str:
        shown = REFERENCE.fullmatch(match[2]) or not sounds_secret(match[1])
        return match[0] if shown else f"{match[1]}={HIDDEN}"

    return _PARAMETER.sub(hidden_parameter, _PASSWORD.sub(hidden, text))
