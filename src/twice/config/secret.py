"""Secrets: text that is shown hidden, and `${env:NAME}` references that are resolved only when used."""

from __future__ import annotations

import os
import re
from typing import Any

from twice.core.names.reference import HIDDEN, REFERENCE, hide_passwords, is_reference, sounds_secret
from twice.errors import DeclarationError


class Secret:
    """Text that may hold a password, or `${env:NAME}` in place of one. Printing it, in any form, hides it.

    Not a dataclass: `asdict` would copy its text out.
    """

    __slots__ = ("_text", "_where")

    def __init__(self, text: str, where: str = "") -> None:
        self._text = text
        self._where = where

    def reveal(self) -> str:
        """The text with its references resolved, now. DeclarationError if the environment lacks one."""
        return REFERENCE.sub(self._resolved, self._text)

    @property
    def reference(self) -> bool:
        """Whether it is nothing but references, which may be shown: they name a secret and hold none."""
        return is_reference(self._text)

    def shown(self, name: str = "") -> str:
        """As people may see it: URLs without their passwords; nothing at all under the name of a secret."""
        if self.reference:
            return self._text
        return HIDDEN if sounds_secret(name) else hide_passwords(self._text)

    def _resolved(self, match: re.Match[str]) -> str:
        try:
            return os.environ[match[1]]
        except KeyError:
            raise DeclarationError(
                f"the environment variable {match[1]} is not set", where=self._where, fix=f"Set it: export {match[1]}=…"
            ) from None

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __deepcopy__(self, _memo: object) -> Secret:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a Secret does not leave its process")
