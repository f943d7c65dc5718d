"""Where a statement is: how its offsets become positions of the file, and in which flow it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace

from twice.lint.facts import Place, TextSpan


@dataclass(frozen=True)
class SqlPosition:
    locate: Callable[[int, int], TextSpan]
    unit: str = "<script>"
    order: int = 0
    transaction: str = "?"
    within: frozenset[str] = frozenset()
    engine: str = "sql"
    runs: TextSpan | None = None

    def place(self, start: int, end: int) -> Place:
        span = self.locate(start, end)
        return Place(span, self.unit, self.order or span.line, self.transaction, self.within, self.runs)

    def at(self, offset: int) -> SqlPosition:
        """The site of a part that begins `offset` characters later."""
        return replace(self, locate=lambda start, end: self.locate(start + offset, end + offset))


def locator(text: str, first_line: int = 1, first_column: int = 1) -> Callable[[int, int], TextSpan]:
    """Positions in plain text that begins at the given position of its file."""
    starts = [0]
    starts.extend(index + 1 for index, char in enumerate(text) if char == "\n")

    def position(offset: int) -> tuple[int, int]:
        row = bisect_right(starts, offset) - 1
        column = offset - starts[row]
        return first_line + row, column + (first_column if row == 0 else 1)

    def locate(start: int, end: int) -> TextSpan:
        line, column = position(max(start, 0))
        end_line, end_column = position(max(end, start))
        return TextSpan(line, column, end_line, end_column)

    return locate
