"""Tables that could not be read while a command went on with the others."""

from __future__ import annotations

from collections.abc import Sequence


def print_unreadable(tables: Sequence[str], then: str) -> int:
    """Each with why, and what to do once they can be read; the command's exit code."""
    for table in tables:
        print(f"could not be read: {table}; what is open there stays open")
    if tables:
        print(then)
    return 1 if tables else 0
