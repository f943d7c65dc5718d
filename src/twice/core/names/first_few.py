"""A list of names in a message: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(names: Sequence[str], most: int = 3) -> str:
    more = f", and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
