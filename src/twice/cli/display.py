"""What is being done, at the bottom of a terminal: a line for each thread that works, drawn until something else has to
be printed there, and gone when the command has ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TextIO, cast

from twice.cli.terminal import Screen, is_terminal, screen_of, wide
from twice.core.failure.interruption import uninterrupted
from twice.core.ports import STEPS

_PATIENCE_S = 0.4
"""A command that has ended by then shows nothing: it would only flicker."""
_EVERY_S = 0.125
_JOINED_S = 1.0
_MOST = 8
_SPINNER, _PLAIN_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"

Head = Callable[[Screen], list[str]]


@dataclass(frozen=True)
class Doing:
    """What one thread does. `since` is when its step began."""

    step: str
    since: float
    where: str = ""
    detail: str = ""
    fact: str = ""
    counted: Mapping[str, tuple[int, int]] = field(default_factory=dict)


_current: ContextVar[Display | None] = ContextVar("twice_display", default=None)


class Display:
    """A `Progress` that is drawn. Whoever reports only leaves a note: a thread of its own draws, so nobody waits for a
    terminal. Off, it does nothing at all."""

    def __init__(self, stream: TextIO, on: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._on, self._clock = stream, on, clock
        self._doing: dict[int, Doing] = {}
        self._head: Head | None = None
        self._began = clock()
        self._lock = threading.RLock()
        self._drawn = 0
        self._held = self._paused = False
        self._ended = threading.Event()

    @property
    def on(self) -> bool:
        return self._on

    @property
    def took(self) -> float:
        """Seconds since the command began."""
        return self._clock() - self._began

    def begins(self, step: str, where: str = "", detail: str = "") -> None:
        if self._on:
            before = self._doing.get(threading.get_ident(), Doing("", 0.0))
            fact = before.fact if before.where == where else ""
            doing = Doing(step, self._clock(), where, detail, fact, before.counted)
            self._doing[threading.get_ident()] = doing

    def learns(self, fact: str) -> None:
        if self._on and (doing := self._doing.get(threading.get_ident())) is not None:
            self._doing[threading.get_ident()] = replace(doing, fact=fact)

    def counts(self, at: int, total: int, noun: str) -> None:
        if self._on:
            doing = self._doing.get(threading.get_ident()) or Doing("", self._clock())
            self._doing[threading.get_ident()] = replace(doing, counted=_counted(doing.counted, noun, (at, total)))

    def ends(self) -> None:
        self._doing.pop(threading.get_ident(), None)

    @contextmanager
    def headed(self, head: Head) -> Iterator[None]:
        """With these lines above what is being done."""
        self._head = head
        try:
            yield
        finally:
            self._head = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is drawn: a person is asked something."""
        with self._lock:
            self._clear()
            self._paused = True
        try:
            yield
        finally:
            self._held = self._paused = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """While it is open, what is printed goes above it. However the command ends, the terminal is left clean."""
        token = _current.set(self)
        if not self._on:
            try:
                yield
            finally:
                _current.reset(token)
            return
        thread = threading.Thread(target=self._draw_until_ended, name="twice-display", daemon=True)
        unlocked = self._lock.release
        os.register_at_fork(before=self._lock.acquire, after_in_parent=unlocked, after_in_child=unlocked)
        with ExitStack() as stack:
            stack.callback(self._close, thread)
            stack.callback(_current.reset, token)
            stack.enter_context(_printing_above(self))
            with suppress(RuntimeError):  # no thread is to be had: then nothing is drawn
                thread.start()
            yield

    def write_above(self, stream: TextIO, text: str) -> int:
        """As the stream would have it. A line that is not ended yet keeps its place until it is."""
        if not text:
            return 0
        with self._lock:
            self._clear()
            written = stream.write(text)
            stream.flush()
            self._held = not text.endswith("\n")
        return written

    def _close(self, thread: threading.Thread) -> None:
        with uninterrupted():
            self._ended.set()
            if thread.ident is not None:
                thread.join(_JOINED_S)
            with self._lock:
                self._clear()

    def _draw_until_ended(self) -> None:
        """Whatever goes wrong here ends the drawing, and nothing else."""
        if self._ended.wait(_PATIENCE_S):
            return
        with suppress(Exception):
            for tick in count():
                lines = self._lines(tick)
                with self._lock:
                    if not (self._held or self._paused or self._ended.is_set()):
                        self._erase("\n".join(lines))
                        self._drawn = len(lines)
                if self._ended.wait(_EVERY_S):
                    return

    def _clear(self) -> None:
        with suppress(Exception):
            self._erase("")

    def _erase(self, then: str) -> None:
        """In one write, so that nothing flickers. The cursor is never hidden: a process that is killed cannot bring it
        back."""
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        if self._drawn or then:
            # Past the stream's own buffer: a process that is forked meanwhile must not find that locked.
            os.write(self._stream.fileno(), f"\r{up}\x1b[J{then}".encode(self._stream.encoding, "replace"))
        self._drawn = 0

    def _lines(self, tick: int) -> list[str]:
        screen, now = screen_of(self._stream), self._clock()
        head = [] if self._head is None else self._head(screen)
        lines = drawn(screen, head, list(self._doing.values()), Moment(now, now - self._began, tick))
        rows = os.get_terminal_size(self._stream.fileno()).lines
        return lines[: max(1, rows - 1)] if rows else lines


@dataclass(frozen=True)
class Moment:
    """When it is drawn: by the clock, since the command began, and how often before."""

    now: float
    took: float
    tick: int


def drawn(screen: Screen, head: list[str], doing: list[Doing], at: Moment) -> list[str]:
    """None of them longer than the screen is wide: not even the last column is used, in which some terminals wrap.
    `head` fits it already."""
    room, clock = (screen.width or 80) - 1, "" if head else f"  {duration(at.took)}"
    shown = [_line(screen, each, at, room - (0 if index else len(clock))) for index, each in enumerate(doing[:_MOST])]
    if len(doing) > _MOST:
        shown.append(f"  and {len(doing) - _MOST} more")
    if shown and clock:
        shown[0] += " " * (room - wide(shown[0]) - len(clock)) + screen.paint(clock, "dim")
    return head + shown


def _counted(before: Mapping[str, tuple[int, int]], noun: str, now: tuple[int, int]) -> Mapping[str, tuple[int, int]]:
    """With the next task, what was counted of the last one is over: its slices."""
    kinds = [name.split(" ")[0] for name in before]
    kind = noun.split(" ")[0]
    outer = list(before)[: kinds.index(kind)] if kind in kinds else list(before)
    return {**{name: before[name] for name in outer}, noun: now}


def _line(screen: Screen, doing: Doing, at: Moment, room: int) -> str:
    """`task 2 of 9, revenue_daily[2026-06-09]: stage (5 of 7), 1,200 rows, 3 s`. What has no room is left out of the
    middle of the name, then of the end."""
    spinner = _SPINNER if screen.letters else _PLAIN_SPINNER
    counted = [f"{noun} {number} of {total}" for noun, (number, total) in doing.counted.items() if total > 1]
    before = "".join(f"{each}, " for each in counted)
    step = f"{doing.step} ({STEPS.index(doing.step) + 1} of {len(STEPS)})" if doing.step in STEPS else doing.step
    took = at.now - doing.since
    parts = [step, doing.fact, f"{took:.0f} s" if took >= 1 else "", doing.detail]
    after = ", ".join(part for part in parts if part)
    where = f"{doing.where}: " if doing.where and after else doing.where
    left = room - 2 - wide(before) - wide(after)
    if wide(where) > left:
        where = screen.cut(where, max(left, min(wide(where), 24)))
    text = screen.cut_end(f"{before}{where}{after}", room - 2)
    return f"{screen.paint(spinner[at.tick % len(spinner)], 'cyan')} {text}"


def duration(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def display_on(stream: TextIO, quiet: bool) -> bool:
    """Only for a person at a terminal who did not ask for quiet."""
    return not quiet and os.environ.get("TWICE_PROGRESS", "") != "0" and is_terminal(stream)


def current_display() -> Display:
    """The one of the command that runs in this thread; one that is off, where there is none."""
    return _current.get() or Display(sys.stderr, on=False)


class _Above:
    """A stream whose text goes above the display."""

    def __init__(self, stream: TextIO, display: Display) -> None:
        self._stream, self._display = stream, display

    def write(self, text: str) -> int:
        return self._display.write_above(self._stream, text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def _printing_above(display: Display) -> Iterator[None]:
    """What anybody prints to the terminal, user code too. A pipe is left alone."""
    before = sys.stdout, sys.stderr
    ours = [cast("TextIO", _Above(stream, display)) if is_terminal(stream) else stream for stream in before]
    sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        for name, was, mine in zip(("stdout", "stderr"), before, ours, strict=True):
            if getattr(sys, name) is mine:  # who replaced it meanwhile keeps it
                setattr(sys, name, was)
