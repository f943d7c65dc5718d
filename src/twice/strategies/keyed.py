"""What the strategies with a key share: how a key is declared."""

from __future__ import annotations

from collections.abc import Sequence

from twice.errors import DeclarationError


def checked_key(key: str | Sequence[str], strategy: str) -> tuple[str, ...]:
    """The key's columns, each named once (case does not count)."""
    columns = (key,) if isinstance(key, str) else tuple(key)
    example = f'Write {strategy}("order_id") or {strategy}(["order_id", "line"]).'
    if not columns or not all(_names(column) for column in columns):
        raise DeclarationError(f"{strategy}({key!r}): this is not a valid key", fix=example)
    if len({column.lower() for column in columns}) != len(columns):
        raise DeclarationError(f"{strategy}({key!r}) names a column of the key twice", fix=example)
    return columns


def _names(column: object) -> bool:
    return isinstance(column, str) and bool(column.strip())
