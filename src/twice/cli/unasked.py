"""Tables that could not be asked while a command went on with the others."""

from __future__ import annotations

from collections.abc import Sequence


def say_unasked(tables: Sequence[str], then: str) -> int:
    """Each with why, and what to do once they can be asked; the command's exit code."""
    for table in tables:
        print(f"could not be asked: {table}; what is open there stays open")
    if tables:
        print(then)
    return 1 if tables else 0
