"""Renders a dbt template with placeholders for everything dbt would know, and remembers where each character came from.

Rendering happens in jinja's sandbox: a template can compute and loop, but it reaches no file, module or process.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jinja2.sandbox import SandboxedEnvironment

from twice.lint.facts import TextSpan
from twice.lint.frontends.dbt_placeholders import (
    ClockPlaceholder,
    Config,
    Placeholder,
    RelationPlaceholder,
    placeholders,
)

# A mark before each piece of plain text gives its place in the source; the two letters are private to us.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([0-9a-f]+){_CLOSE}")
_TAGS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_OPENING = re.compile(r"\{[{%#]")
_QUOTE_OR_END = re.compile(r"\}\}|%\}|#\}|'|\"")
_STRING = {"'": re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL), '"': re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)}
_BLOCK = re.compile(r"\{%(-?\s*(?:end)?(?:snapshot|docs)\b.{0,200}?)%\}", re.DOTALL)
# '{{ run_started_at.date() }}' is a moment of the run, not a text; the mark behind it stays where it is.
_QUOTED_CLOCK = re.compile(f"'({ClockPlaceholder.TEXT})({_MARK.pattern.replace('(', '(?:')}|)'")
_PADDED = re.compile(r"%[^a-zA-Z%]*(?:\d{4}|\*)")
_PADDING = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map"})
_LONGEST = 2_000_000
_MOST_PIECES = 100_000


class TemplateFailure(Exception):
    """The template cannot be rendered; the message gives the reason."""


@dataclass(frozen=True)
class Rendered:
    text: str
    source: str
    marks: tuple[tuple[int, int, int], ...]
    """Offset in the text, offset in the source, and where that piece of source ends."""
    config: dict[str, Any] = field(default_factory=dict)
    macros: frozenset[str] = frozenset()
    """Macros that were called and are not known here."""

    def behind(self, prefix: str) -> Rendered:
        """The same with `prefix` before the text."""
        marks = tuple((at + len(prefix), origin, end) for at, origin, end in self.marks)
        return Rendered(prefix + self.text, self.source, marks, self.config, self.macros)

    def where(self) -> Callable[[TextSpan], TextSpan]:
        """A function that takes a position in the text to its position in the source."""
        ours, theirs = _starts(self.text), _starts(self.source)

        def one(line: int, column: int) -> tuple[int, int]:
            offset = ours[min(max(line, 1), len(ours)) - 1] + max(column, 1) - 1
            origin = self._origin(offset)
            row = bisect_right(theirs, origin) - 1
            return row + 1, origin - theirs[row] + 1

        def moved(span: TextSpan) -> TextSpan:
            line, column = one(span.line, span.column)
            if not span.end_line:
                return TextSpan(line, column)
            end_line, end_column = one(span.end_line, span.end_column)
            if (end_line, end_column) <= (line, column):
                end_line, end_column = line, column + 1
            return TextSpan(line, column, end_line, end_column)

        return moved

    def _origin(self, offset: int) -> int:
        index = bisect_right(self.marks, offset, key=lambda mark: mark[0]) - 1
        if index < 0:
            return self.marks[0][1] if self.marks else 0
        at, origin, end = self.marks[index]
        return min(origin + offset - at, end)


def render(source: str, *, model: str, incremental: bool, adapter: str = "") -> Rendered:
    """The text dbt would send, as far as it can be known. Raises TemplateFailure."""
    marked, ends = _marked(_BLOCK.sub(r"{#\1#}", source))
    config, called = Config(), set[str]()
    known = placeholders(model, adapter, incremental=incremental, config=config)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pieces = _environment(called).from_string(marked, known).generate()
            text = "".join(_limited(pieces))
    # The template is somebody else's program: whatever it raises is a reason not to read it, never our crash.
    except Exception as error:
        raise TemplateFailure(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error
    clean, marks = _unmarked(_QUOTED_CLOCK.sub(r" \1\2 ", text), ends)
    return Rendered(clean, source, marks, config.values, frozenset(called))


class _Environment(SandboxedEnvironment):
    # Multiplying, raising to a power and padding are how a short template makes an endless text.
    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_callable(self, obj: Any) -> bool:
        # A placeholder answers every question with yes, also "are you unsafe?".
        return isinstance(
            obj, (Placeholder, Config, RelationPlaceholder, ClockPlaceholder)
        ) or super().is_safe_callable(obj)

    def call_binop(self, _: Any, operator: str, left: Any, right: Any) -> Any:
        plain = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "*" and plain and abs(left) < 1e9 and abs(right) < 1e9:
            return left * right
        if operator == "%" and not _PADDED.search(str(left)):
            return left % right
        return Placeholder(name="value")

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in _PADDING and super().is_safe_attribute(obj, attr, value)


class _Lenient(dict[str, Any]):
    """Filters or tests; one that is not known passes its value on."""

    def __missing__(self, name: str) -> Any:
        return lambda value=None, *_, **__: value

    def get(self, name: str, _: Any = None) -> Any:
        return self[name]

    def __contains__(self, name: object) -> bool:
        return True


def _environment(called: set[str]) -> _Environment:
    environment = _Environment(
        undefined=_noting(called),
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        # Folding constants takes time that grows with the cube of a chain's length (jinja 3.1).
        optimized=False,
        cache_size=0,
    )
    kept = {name: each for name, each in environment.filters.items() if name not in (*_PADDING, "indent", "wordwrap")}
    environment.filters = _Lenient(kept)
    environment.tests = _Lenient(environment.tests)
    environment.globals["range"] = _short_range
    # lipsum makes texts of any length.
    del environment.globals["lipsum"]
    return environment


def _noting(called: set[str]) -> type[Placeholder]:
    class Noting(Placeholder):
        """A name nobody gave: a macro, if it is called."""

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            called.add(self.path[0])
            return super().__call__(*arguments, **options)

    return Noting


def _short_range(*bounds: Any) -> range:
    return range(*(int(bound) for bound in bounds))[:20]


def _limited(pieces: Iterator[str]) -> Iterator[str]:
    length = 0
    for number, piece in enumerate(pieces):
        length += len(piece)
        if length > _LONGEST or number > _MOST_PIECES:
            raise TemplateFailure("the template produces too much text")
        yield piece


def _marked(source: str) -> tuple[str, dict[int, int]]:
    """The source with a mark at each start of plain text, and for each mark where that piece ends."""
    out: list[str] = []
    ends: dict[int, int] = {}
    position = 0
    for start, stop in (*_tags(source), (len(source), len(source))):
        piece = position
        for line in source[position:start].splitlines(keepends=True):
            out += (f"{_OPEN}{piece:x}{_CLOSE}", line)
            ends[piece] = piece + len(line)
            piece += len(line)
        out.append(source[start:stop])
        position = stop
    return "".join(out), ends


def _tags(source: str) -> Iterator[tuple[int, int]]:
    """Where each tag begins and ends. A hook given as a string has tags of its own, which are not ends of this one."""
    position = 0
    while match := _OPENING.search(source, position):
        close = _TAGS[match[0]]
        position = match.end()
        while not source.startswith(close, position):
            stop = _QUOTE_OR_END.search(source, position)
            if stop is None:
                return
            quoted = stop[0] in "'\"" and close != "#}"
            end = _STRING[stop[0]].match(source, stop.end()) if quoted else None
            position = end.end() if end else stop.start() + (stop[0] != close)
        position += len(close)
        yield match.start(), position


def _unmarked(text: str, ends: dict[int, int]) -> tuple[str, tuple[tuple[int, int, int], ...]]:
    marks: list[tuple[int, int, int]] = []
    clean: list[str] = []
    length = 0
    parts = _MARK.split(text)
    clean.append(parts[0])
    length += len(parts[0])
    for number, piece in zip(parts[1::2], parts[2::2], strict=True):
        origin = int(number, 16)
        marks.append((length, origin, ends.get(origin, origin)))
        clean.append(piece)
        length += len(piece)
    return "".join(clean), tuple(marks)


def _starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]
