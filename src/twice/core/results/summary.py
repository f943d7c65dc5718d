"""Results for people: one line of text on a terminal, a small HTML table in a notebook. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timezone
from html import escape
from itertools import islice
from typing import TypeVar, overload

SHOWN = 50
"""So many rows a table shows at most."""

T = TypeVar("T", covariant=True)

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""The head, and the rows."""


class Summarized:
    """A result that shows itself. `str()` is its one line, `repr()` the same with its type."""

    __slots__ = ()

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def as_table(self) -> Table:
        """What a notebook shows beneath the one line."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {' '.join(str(self).split())}>"

    def _repr_html_(self) -> str:
        return html_table(str(self), *self.as_table())


class SummarizedSequence(Summarized, Sequence[T]):
    """A result that is a sequence, too: it has a length, is falsy when empty, and equals a tuple of the same."""

    __slots__ = ()

    @property
    @abstractmethod
    def _items(self) -> tuple[T, ...]: ...

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return self._items[at]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._items)


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Every value is escaped: a message may quote data, and data may be markup. None is an empty cell, and a column
    of nothing else is left out. It names no colour: a notebook's own, light or dark, fit."""
    lines = [f"<div><p>{escape(title)}</p>"]
    if rows:
        filled = [at for at in range(len(head)) if any(row[at] is not None for row in rows)]
        numbers = {at for at in filled if any(type(row[at]) is int for row in rows)}
        body = "".join(_row("td", row, filled, numbers) for row in islice(rows, SHOWN))
        lines.append(f"<table><thead>{_row('th', head, filled, numbers)}</thead><tbody>{body}</tbody></table>")
    if len(rows) > SHOWN:
        lines.append(f"<p>and {len(rows) - SHOWN:,} more</p>")
    return "".join([*lines, "</div>"])


def _row(cell: str, values: Sequence[object], filled: Sequence[int], numbers: Collection[int]) -> str:
    """Text to the left, where people begin to read it; notebooks put all to the right."""
    left = ' style="text-align:left"'
    cells = (f"<{cell}{'' if at in numbers else left}>{_text(values[at])}</{cell}>" for at in filled)
    return f"<tr>{''.join(cells)}</tr>"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    return escape(f"{value:,}" if type(value) is int else str(value))


def run_label(task: str, labels: Sequence[str]) -> str:
    """`revenue_daily[2026-06-09]`, `revenue_daily[2026-06-01..2026-06-09]`, or the task alone."""
    if not labels:
        return task
    return f"{task}[{labels[0]}]" if len(labels) == 1 else f"{task}[{labels[0]}..{labels[-1]}]"


def counted_each(values: Iterable[str]) -> str:
    """`2 published, 1 already published`, in the order they come."""
    return ", ".join(f"{count:,} {value}" for value, count in Counter(values).items())


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 slice`, `3 slices`; `plural` where an s does not make it."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def counted_of(part: int, whole: int, noun: str) -> str:
    """`0 of 1 slice is`, `2 of 3 slices are`."""
    return f"{part:,} of {counted(whole, noun)} {'is' if whole == 1 else 'are'}"
