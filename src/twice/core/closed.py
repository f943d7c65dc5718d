"""Closed choices: a `match` over all members ends in `assert_never`. A new member is then a type error wherever it is
not handled yet, and is refused at run time."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """As `typing.assert_never`, which Python 3.10 does not have."""
    raise AssertionError(f"{value!r} is not handled here")
