"""Names and types as Spark SQL reads them. Pure: a type is asked what it is made of, and never imported."""

from __future__ import annotations

import re
from typing import Any


def quoted(name: str) -> str:
    """The name in backticks, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def type_text(type_: Any) -> str:
    """The type's simple form, `struct<id:bigint,`user-agent`:string>`: a field whose name is no plain word is quoted,
    which Spark's own simple form leaves out, and then cannot read again."""
    fields = getattr(type_, "fields", None)
    if fields is not None:
        return f"struct<{','.join(f'{_name(each.name)}:{type_text(each.dataType)}' for each in fields)}>"
    if hasattr(type_, "elementType"):
        return f"array<{type_text(type_.elementType)}>"
    if hasattr(type_, "keyType"):
        return f"map<{type_text(type_.keyType)},{type_text(type_.valueType)}>"
    return str(type_.simpleString())


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)
