"""References to secrets: `${env:NAME}` stands for one and may be seen; what looks like a secret itself may not."""

from __future__ import annotations

import json
import re
from typing import Any

HIDDEN = "***"
REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")

_PASSWORD = re.compile(r"(?<=://)([^/@\s]*?):([^/@\s]*(?:@[^/@\s]*)*)@")
# A password with a slash ends no database's URL: nothing after the user is shown up to the last @.
_DATABASE = re.compile(r"(?:(?<=postgres://)|(?<=postgresql://)|(?<=psycopg://))([^:/@\s]*):(\S*)@")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;\s]+)=([^&;\s]*)")
# libpq's form of a connection (`host=… password='…'`), and options of a JVM. Where a URL's parameter is, that counts.
_WORD = re.compile(r"""(?<![\w.?&;-])([\w.-]+)(\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s'][^\s]*)""")
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
    """Passwords of URLs and secret-sounding parameters replaced; `${env:NAME}` in their place may be seen. Of one text
    at a time: what stands after a secret is taken for its end, also a quotation mark of JSON."""

    def hidden(match: re.Match[str]) -> str:
        return match[0] if REFERENCE.fullmatch(match[2]) else f"{match[1]}:{HIDDEN}@"

    def hidden_parameter(match: re.Match[str]) -> str:
        shown = REFERENCE.fullmatch(match[2]) or not sounds_secret(match[1])
        return match[0] if shown else f"{match[1]}={HIDDEN}"

    def hidden_word(match: re.Match[str]) -> str:
        shown = REFERENCE.fullmatch(match[3].strip("'")) or not sounds_secret(match[1])
        return match[0] if shown else f"{match[1]}{match[2]}{HIDDEN}"

    return _WORD.sub(hidden_word, _PARAMETER.sub(hidden_parameter, _PASSWORD.sub(hidden, _DATABASE.sub(hidden, text))))


def hide_passwords_in(value: Any) -> Any:
    """The same in every text of plain data, also in one that is itself JSON: that stays JSON."""
    match value:
        case dict():
            return {name: hide_passwords_in(each) for name, each in value.items()}
        case list():
            return [hide_passwords_in(each) for each in value]
        case str() if value.startswith(("{", "[")):
            try:
                return json.dumps(hide_passwords_in(json.loads(value)), ensure_ascii=False)
            except ValueError:
                return hide_passwords(value)
        case str():
            return hide_passwords(value)
        case _:
            return value
