"""A `LintResult` as text for people and as documents for programs."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TextIO, cast

from rich.console import Console

from twice.lint.finding import LintResult
from twice.lint.report import github, json_document, sarif, text

__all__ = ["OUTPUTS", "coloured", "render", "write"]

_DOCUMENTS: dict[str, Callable[[LintResult], str]] = {
    "json": json_document.render,
    "sarif": sarif.render,
    "github": github.render,
}
OUTPUTS = ("text", *_DOCUMENTS)
_NARROWEST = 40


def render(result: LintResult, output: str = "text", *, statistics: bool = False) -> str:
    """The whole report as plain characters; `statistics` adds a count per rule to the text."""
    if output == "text":
        return text.report(result, statistics=statistics).plain
    return _DOCUMENTS[output](result)


def coloured(result: LintResult, width: int) -> str:
    """The text for a terminal of that width. A source line is shown as far as it fits, so that the caret below it
    points at what it means; prose is left to be folded."""
    console = Console(file=StringIO(), force_terminal=True, width=width)
    console.print(text.report(result, widest=max(width, _NARROWEST) - text.BESIDE_SOURCE), end="", soft_wrap=True)
    return cast("StringIO", console.file).getvalue()


def write(result: LintResult, stream: TextIO, output: str = "text", *, statistics: bool = False) -> None:
    """Send the report to `stream`, without colour."""
    stream.write(render(result, output, statistics=statistics))
