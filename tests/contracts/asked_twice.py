"""Every question of a look is asked twice: of the target, and of its reader, which needs no engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

from twice.core.ports import NeedsEngine, Target

_LOOKS = ("published", "tokens", "provenance", "foreign", "touched")
_TRIES = 5


def asked_twice(target: Any, reader: Callable[[], AbstractContextManager[Any]]) -> Target:
    """The target, of which every question of a look is asked of a reader too: where that answers, it is the same.
    Another commit may come between the two questions, and between the next two."""

    def both(name: str) -> Any:
        ask = getattr(target, name)

        def answer(*args: Any, **options: Any) -> Any:
            for _ in range(_TRIES):
                found = ask(*args, **options)
                try:
                    with reader() as opened:
                        read = getattr(opened, name)(*args, **options)
                except NeedsEngine:
                    return found
                if read == found:
                    return found
            raise AssertionError(f"{name}{args}: the target says {found}, and its reader {read}")

        return answer

    for name in _LOOKS:
        setattr(target, name, both(name))
    return cast(Target, target)
