"""Whether a command printed what its page shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff

ANY = "…"

_FORMS = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( ?Z| UTC|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b\d+:\d\d(:\d\d)?(\.\d+)?\b"), "<duration>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|seconds?|minutes?)\b"), "<duration>"),
    (re.compile(r"\b\d+(\.\d+)? ?(B|KB|MB|GB|TB|bytes)\b"), "<size>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{12}|[0-9a-f]{8})\b"), "<id>"),
    (re.compile(r"[ \t]+"), " "),
)
"""What differs from one reader to the next. Each is replaced by its form, on the page and in what was printed."""


def difference(shown: Sequence[str], printed: Sequence[str]) -> str:
    """Empty where the command printed what is shown; else both, line by line, as they were compared."""
    expected, found = [_plain(line) for line in shown], _without_margin([_plain(line) for line in printed])
    if not expected or _match(expected, found):
        return ""
    return "\n".join(unified_diff(expected, found, "the page", "printed", lineterm="", n=2))


def _plain(line: str) -> str:
    for pattern, form in _FORMS:
        line = pattern.sub(form, line)
    return line.rstrip()


def _without_margin(lines: list[str]) -> list[str]:
    filled = [number for number, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _match(expected: Sequence[str], found: Sequence[str]) -> bool:
    """`…` alone on a line is any lines, also none."""
    if not expected:
        return not found
    if expected[0].strip() == ANY:
        return any(_match(expected[1:], found[skipped:]) for skipped in range(len(found) + 1))
    return bool(found) and _same(expected[0], found[0]) and _match(expected[1:], found[1:])


def _same(expected: str, found: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in expected.split(ANY)), found) is not None
