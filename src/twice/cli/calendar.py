"""`twice status TASK --calendar`: every state has a shape of its own, and on a terminal a colour."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from twice.core.results.calendar import Cell, Page

# state: shape, shape where the terminal knows no other letters, colour
_LOOKS: dict[Cell, tuple[str, str, str | None]] = {
    "published": ("■", "#", "green"),
    "stale": ("□", "s", "yellow"),
    "failed": ("✗", "x", "red"),
    "quarantined": ("!", "!", "magenta"),
    "at work": ("◌", "~", "yellow"),
    "missing": ("·", ".", None),
    "none": (" ", " ", None),
}


def print_calendar(pages: Sequence[Page]) -> None:
    letters = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    colours = sys.stdout.isatty()
    width = max(len(page.title) for page in pages)
    for page in pages:
        cells = "".join(_drawn(cell, letters, colours) for cell in page.cells)
        print(f"{page.title.ljust(width)}  {cells}".rstrip())
    used = {cell for page in pages for cell in page.cells}
    legend = [f"{_drawn(cell, letters, colours)} {cell}" for cell in _LOOKS if cell in used and cell != "none"]
    print("  ".join(legend))


def _drawn(cell: Cell, letters: bool, colours: bool) -> str:
    shape, plain, colour = _LOOKS[cell]
    drawn = shape if letters else plain
    return typer.style(drawn, fg=colour) if colours and colour else drawn
