"""Names as Spark SQL reads them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """The name in backticks, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
