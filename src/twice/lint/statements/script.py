"""Splits SQL text into statements. One bad statement must not hide the others."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STOP = re.compile(r"--|/\*|'|\"|`|;|\$\w{0,20}\$|^[ \t]*GO[ \t]*$", re.MULTILINE | re.IGNORECASE)
_LEADING = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|#[^\n]*\n)+", re.DOTALL)
_KEEP = re.compile(r"(with|merge|explain|create\s+(or\s+\w+\s+)?(proc|func|trigger|event|rule|task))", re.I)
_HEAD = re.compile(
    r"^[ \t]*((?:insert\s+into|delete\s+from|truncate\s+table|drop\s+table|begin\s+tran\w*|commit|create\s+table"
    r"|update\s+[\w.\[\]]+\s+set|merge\s+into|copy\s+into|declare\s+@|set\s+@)\b)",
    re.I | re.M,
)
MOST = 2_000
"""Statements of one text; a dump with more is data."""


@dataclass(frozen=True)
class SqlStatement:
    text: str
    offset: int


def split(text: str) -> list[SqlStatement]:
    """Every statement with the offset of its first character; comments before it are left out."""
    found: list[SqlStatement] = []
    start = 0
    for semicolon, after in _ends(text):
        _take(found, text, start, semicolon)
        start = after
        if len(found) >= MOST:
            return found
    _take(found, text, start, len(text))
    return found


def _ends(text: str) -> list[tuple[int, int]]:
    """Where statements end and the next begins, quotes and comments skipped."""
    ends: list[tuple[int, int]] = []
    position = 0
    while True:
        stop = _STOP.search(text, position)
        if stop is None:
            return ends
        mark = stop[0]
        position = stop.end()
        if mark == ";" or mark.strip().upper() == "GO":
            ends.append((stop.start(), stop.end()))
            continue
        close = "\n" if mark == "--" else "*/" if mark == "/*" else mark
        end = text.find(close, position)
        # A quote that never closes is a stray character, not the end of all statements.
        if end >= 0:
            position = end + len(close)


def _take(found: list[SqlStatement], text: str, start: int, end: int) -> None:
    leading = _LEADING.match(text, start, end)
    if leading:
        start = leading.end()
    body = text[start:end].rstrip()
    if body:
        found.extend(SqlStatement(part, start + offset) for part, offset in _further(body))


def _further(body: str) -> list[tuple[str, int]]:
    """T-SQL needs no semicolons: a line that begins a new change begins a new statement."""
    if _KEEP.match(body):
        return [(body, 0)]
    starts = [0]
    for match in _HEAD.finditer(body):
        before = body[starts[-1] : match.start()]
        if match.start() > 0 and before.strip() and before.count("(") == before.count(")"):
            starts.append(match.start(1))
    ends = [*starts[1:], len(body)]
    return [(body[a:b].rstrip(), a) for a, b in zip(starts, ends, strict=True)]
