"""A person at a terminal: a command in a process of its own, on a real pseudo-terminal, and what its screen showed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyte

COLUMNS = 80
WITHOUT = ("CI", "NO_COLOR", "TERM", "TWICE_PROGRESS", "TWICE_PROFILE", "COLUMNS", "LINES", "PYTEST_CURRENT_TEST")


class Wrapping(pyte.Screen):
    """Notices each line that went over the edge: `pyte` then moves to the next one by itself."""

    def __init__(self, lines: int) -> None:
        super().__init__(COLUMNS, lines)
        self.wrapped: list[str] = []
        self._shown = [""] * lines

    def draw(self, data: str) -> None:
        for letter in data:
            before = (self.cursor.x, self.cursor.y)
            line = self.display[before[1]] if before[0] == self.columns else ""
            super().draw(letter)
            if line:
                self.wrapped.append(line)

    def text(self) -> str:
        """What it shows. Only lines that changed are looked at: a screen of hundreds of lines takes its time."""
        for at in self.dirty:
            cells = self.buffer[at]
            self._shown[at] = "".join(cells[column].data for column in range(self.columns)).rstrip()
        self.dirty.clear()
        return "\n".join(self._shown).rstrip()


@dataclass
class Session:
    """What the person saw. `frames`: each different screen with the seconds since the start."""

    frames: list[tuple[float, str]] = field(default_factory=list)
    wrapped: list[str] = field(default_factory=list)
    code: int = -1
    took: float = 0.0

    @property
    def last(self) -> str:
        return self.frames[-1][1] if self.frames else ""

    def first(self, *words: str) -> float | None:
        """When all of these were first to be seen at once."""
        return next((at for at, frame in self.frames if all(word in frame for word in words)), None)


def watch(
    command: Sequence[str],
    cwd: Path,
    *,
    env: dict[str, str] | None = None,
    patience: float = 100.0,
    lines: int = 40,
    then: Callable[[str, subprocess.Popen[bytes]], None] | None = None,
) -> Session:
    """Run it to its end. `then` gets each new screen, and may end the command."""
    screen = Wrapping(lines)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in WITHOUT}
    seen, began = Session(), time.monotonic()
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        env={**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(env or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
    )
    os.close(theirs)
    try:
        while chunk := _read(ours, patience - (time.monotonic() - began)):
            stream.feed(chunk)
            frame = screen.text()
            if frame != seen.last:
                seen.frames.append((time.monotonic() - began, frame))
                if then is not None:
                    then(frame, process)
        seen.code = process.wait(max(1.0, patience - (time.monotonic() - began)))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)
    seen.wrapped, seen.took = screen.wrapped, time.monotonic() - began
    return seen


def twice(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "twice", *arguments]


def _read(end: int, patience: float) -> bytes:
    """Nothing, when the last process that has the terminal is gone."""
    if not select.select([end], [], [], max(0.0, patience))[0]:
        raise TimeoutError
    try:
        return os.read(end, 65536)
    except OSError:  # Linux: the other end is closed
        return b""
