"""What a terminal gets beyond plain text: colour, symbols, and lines that fit it. A pipe gets the text as it is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal, TextIO
from unicodedata import combining, east_asian_width

from twice.core.hints import commands_in

NARROWEST = 40
_USUAL = 80
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_ENDS_COMMAND = re.compile(r"[.,;:)]$")
_TEXT_COLUMN = 24
"""So many columns at least for the last column of a table, which holds sentences."""
_NAME_COLUMN = 12
"""So many at least for a column that is cut: of names."""

Colour = Literal["red", "green", "yellow", "blue", "magenta", "cyan", "dim", "bold"]
_CODES: dict[Colour, int] = {
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "dim": 2,
    "bold": 1,
}


class Symbol(Enum):
    """What a line says, at a glance."""

    DONE = "done"
    SAME = "same"
    CHANGED = "changed"
    WAITING = "waiting"
    NOTICE = "notice"
    FAILED = "failed"


# symbol, symbol where the terminal knows no other letters, colour
_LOOKS: dict[Symbol, tuple[str, str, Colour]] = {
    Symbol.DONE: ("✓", "+", "green"),
    Symbol.SAME: ("=", "=", "green"),
    Symbol.CHANGED: ("~", "~", "yellow"),
    Symbol.WAITING: ("○", "o", "yellow"),
    Symbol.NOTICE: ("!", "!", "yellow"),
    Symbol.FAILED: ("✗", "x", "red"),
}


@dataclass(frozen=True)
class Screen:
    """What a stream can show. The default is a pipe: text as it is, whatever its length."""

    width: int | None = None
    colours: bool = False
    letters: bool = False

    def paint(self, text: str, colour: Colour) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colours and text else text

    def marked(self, mark: Symbol, text: str) -> str:
        """The text behind its symbol; in a pipe the text alone."""
        if self.width is None:
            return text
        symbol, plain, colour = _LOOKS[mark]
        return f"{self.paint(symbol if self.letters else plain, colour)} {text}"

    def folded(self, text: str) -> str:
        """Lines that fit, broken between words. A command that is broken goes on behind a backslash: copied, it is
        still one command. A word that is longer than a line stays whole."""
        if self.width is None:
            return text
        return "\n".join(_fold(line, max(self.width, NARROWEST)) for line in text.split("\n"))

    def cut(self, text: str, room: int) -> str:
        """One line of at most `room` columns; what is in the middle is left out first."""
        return cut(text, room, "…" if self.letters else "~")

    def cut_end(self, text: str, room: int) -> str:
        """One line of at most `room` columns; the end is left out first."""
        kept = text
        while wide(kept) > room:
            kept = kept[: min(len(kept) - 1, room)]
        return kept if kept == text else f"{kept[:-1]}{'…' if self.letters else '~'}"


PIPE = Screen()
_HANG = "  "
"""Where a symbol and its space stand in the lines that have none."""


def screen_of(stream: TextIO) -> Screen:
    """NO_COLOR is respected. In a CI system and on a terminal that cannot move its cursor it is a pipe."""
    if not is_terminal(stream):
        return PIPE
    return Screen(columns(stream), not os.environ.get("NO_COLOR"), _knows_letters(stream))


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it. A stream that is closed or replaced is none."""
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
    except (AttributeError, ValueError):
        return False


def columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL


def say(text: str, mark: Symbol | None = None, colour: Colour | None = None, stream: TextIO | None = None) -> None:
    """Print for a person: marked, coloured and folded on a terminal, the bare text in a pipe."""
    to = sys.stdout if stream is None else stream
    screen = screen_of(to)
    lines = screen.folded(text if mark is None else screen.marked(mark, text)).split("\n")
    print("\n".join(lines if colour is None else [screen.paint(line, colour) for line in lines]), file=to)


def on_terminal() -> bool:
    """Whether a person reads what is printed: then it may say more than scripts rely on."""
    return is_terminal(sys.stdout)


def say_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    cuts: Sequence[int] = (0,),
    marks: Sequence[Symbol] | None = None,
) -> None:
    """Print a table for a person: see `table_lines`. `marks`: the symbol of each row, on a terminal."""
    screen = screen_of(sys.stdout)
    if marks is None or screen.width is None:
        print("\n".join(table_lines(head, rows, screen, cuts)))
        return
    inside = replace(screen, width=screen.width - len(_HANG))
    first, written = _table(head, rows, inside, cuts)
    lines = [] if first is None else [f"{_HANG}{first}"]
    lines += [screen.marked(mark, row.replace("\n", f"\n{_HANG}")) for mark, row in zip(marks, written, strict=True)]
    print("\n".join(lines))


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen = PIPE, cuts: Sequence[int] = (0,)
) -> list[str]:
    """Columns beneath each other. Where they do not fit, the last one is folded; where that is not enough, `cuts` are
    cut in the middle. What still has no room is written below its row's first column, whole and with its name."""
    first, written = _table(head, rows, screen, cuts)
    return [*([] if first is None else [first]), *(line for row in written for line in row.split("\n"))]


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen, cuts: Sequence[int]
) -> tuple[str | None, list[str]]:
    """The line of the names, where they have one, and each row, which may be several lines."""
    widths = [max(wide(row[at]) for row in (head, *rows)) for at in range(len(head))]
    if screen.width is not None:
        widths = _fitted(widths, screen.width, cuts)
        if _together(widths) > screen.width:
            return None, ["\n".join(_stacked(head, row, screen)) for row in rows]
    return screen.paint(_row(head, widths, screen), "dim"), [_row(row, widths, screen) for row in rows]


def cut(text: str, room: int, mark: str = "…") -> str:
    """The beginning and the end of a text that has not enough room."""
    if wide(text) <= room:
        return text
    kept = max(room - 1, 0)
    while True:
        begin, end = text[: kept - kept // 2], text[len(text) - kept // 2 :]
        if not kept or wide(begin) + wide(end) < room:
            return f"{begin}{mark}{end}"
        kept -= 1  # letters that take two columns


def _fitted(widths: Sequence[int], room: int, cuts: Sequence[int]) -> list[int]:
    """As wide as they are, or narrower, down to what is still of use."""
    fitted = list(widths)
    for at, least in ((len(widths) - 1, _TEXT_COLUMN), *((at, _NAME_COLUMN) for at in cuts)):
        over = _together(fitted) - room
        fitted[at] = max(min(fitted[at], least), fitted[at] - max(over, 0))
    return fitted


def _together(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _stacked(head: Sequence[str], row: Sequence[str], screen: Screen) -> list[str]:
    """The first column, and below it the others that say something, as many to a line as fit."""
    lines = [row[0]]
    for name, cell in zip(head[1:], row[1:], strict=True):
        part = f"{screen.paint(name, 'dim')} {cell}" if name else cell
        if cell and len(lines) > 1 and wide(f"{lines[-1]}  {part}") <= (screen.width or _USUAL):
            lines[-1] += f"  {part}"
        elif cell:
            lines.append(screen.folded(f"  {part}"))
    return lines


def _row(row: Sequence[str], widths: Sequence[int], screen: Screen) -> str:
    cells = row if screen.width is None else [screen.cut(cell, width) for cell, width in zip(row, widths, strict=True)]
    cells = [*cells[:-1], row[-1]]
    before = "  ".join(_padded(cell, width) for cell, width in zip(cells[:-1], widths[:-1], strict=True))
    if screen.width is None or wide(cells[-1]) <= widths[-1]:
        return f"{before}  {cells[-1]}".rstrip() if before else cells[-1].rstrip()
    indent = " " * (wide(before) + 2)
    folded = _fold(cells[-1], max(widths[-1], _TEXT_COLUMN), hang="").split("\n")
    return f"\n{indent}".join([f"{before}  {folded[0]}", *folded[1:]]).rstrip()


def _padded(text: str, width: int) -> str:
    return text + " " * (width - wide(text))


def _fold(line: str, width: int, hang: str = "  ") -> str:
    if wide(line) <= width:
        return line
    lead = line[: len(line) - len(line.lstrip(" "))]
    words = line.strip(" ").split(" ")
    inside = _inside_commands(words)
    lines, current = [], f"{lead}{words[0]}"
    for at, word in enumerate(words[1:], 1):
        # An option keeps its value beside it, and a backslash may have to follow.
        ahead = f" {words[at + 1]}" if word.startswith("--") and inside[at + 1 : at + 2] == [True] else ""
        room = width - (2 if inside[at + 1 : at + 2] == [True] else 0)
        if wide(f"{current} {word}{ahead}") <= room or (inside[at] and words[at - 1].startswith("--")):
            current += f" {word}"
            continue
        lines.append(f"{current} \\" if inside[at] else current)
        current = f"{lead}{hang}{word}"
    return "\n".join([*lines, current])


def _inside_commands(words: Sequence[str]) -> list[bool]:
    """Of each word, whether it goes on with a command that began before it."""
    text = " ".join(_ESCAPES.sub("", word) for word in words)
    starts = commands_in(text)
    inside, at, open_ = [], 0, False
    for word in (_ESCAPES.sub("", each) for each in words):
        open_ = open_ and not word.startswith("(")
        inside.append(open_)
        open_ = (open_ or at in starts) and not _ENDS_COMMAND.search(word)
        at += len(word) + 1
    return inside


def wide(text: str) -> int:
    """How many columns it takes."""
    plain = _ESCAPES.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(2 if east_asian_width(letter) in "WF" else 0 if combining(letter) else 1 for letter in plain)


def _knows_letters(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")
