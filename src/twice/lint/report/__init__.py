"""A `LintResult` as text for people and as documents for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from rich.console import Console

from twice.lint.finding import LintResult
from twice.lint.report import github, json_document, sarif, text

__all__ = ["OUTPUTS", "render", "write"]

_DOCUMENTS: dict[str, Callable[[LintResult], str]] = {
    "json": json_document.render,
    "sarif": sarif.render,
    "github": github.render,
}
OUTPUTS = ("text", *_DOCUMENTS)


def render(result: LintResult, output: str = "text", *, statistics: bool = False) -> str:
    """The whole report as plain characters; `statistics` adds a count per rule to the text."""
    if output == "text":
        return text.report(result, statistics=statistics).plain
    return _DOCUMENTS[output](result)


def write(result: LintResult, stream: TextIO, output: str = "text", *, statistics: bool = False) -> None:
    """Send the report to `stream`. Colour appears only when the stream is a terminal."""
    if output == "text" and stream.isatty():
        # soft_wrap: a long source line must stay one line, or its caret points at nothing.
        Console(file=stream).print(text.report(result, statistics=statistics), end="", soft_wrap=True)
        return
    stream.write(render(result, output, statistics=statistics))
