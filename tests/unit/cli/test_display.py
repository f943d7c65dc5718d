"""What is being done, as a terminal shows it."""

from __future__ import annotations

import codecs
import io
import os
import pty
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest

from twice.cli import display as module
from twice.cli.display import Display, Doing, Moment, current_display, display_on, drawn
from twice.cli.terminal import Screen, wide
from twice.core.ports import STEPS

SCREEN = Screen(80, letters=True)
AT = Moment(now=100.0, took=14.0, tick=2)
WHERE = "revenue_daily[2026-06-09]"


def line(doing: Doing, screen: Screen = SCREEN) -> str:
    (only,) = drawn(screen, [], [doing], AT)
    return only


def test_a_step_of_a_run_says_which_one_of_how_many_since_when_and_how_many_rows() -> None:
    doing = Doing("audit", 97.0, WHERE, fact="1,200 rows", counted={"task": (2, 9), "slice": (1, 1)})
    assert line(doing) == f"⠹ task 2 of 9, {WHERE}: audit (6 of 7), 1,200 rows, 3 s  0:14"


def test_what_is_no_step_of_a_run_is_said_as_it_is() -> None:
    assert line(Doing("starting", 99.9, "Spark")).rstrip("0:14").rstrip() == "⠹ Spark: starting"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_longer_than_the_terminal_and_the_step_stays_to_be_seen(width: int) -> None:
    long = Doing("stage", 0.0, f"{'a_long_task_name_' * 6}[2026-06-09]", fact="12,345,678 rows", detail="why " * 50)
    lines = drawn(Screen(width, letters=True), [], [long] * 11, AT)
    assert len(lines) == 9 and lines[-1] == "  and 3 more"
    assert all(wide(each) < width for each in lines)
    assert all("stage" in each for each in lines[:-1]) or width == 40


def test_with_the_next_task_the_slices_of_the_last_one_are_over(terminal: Terminal) -> None:
    display = Display(terminal.stream, on=True)
    with display.open():
        for at, total, noun in ((1, 2, "task"), (4, 4, "slice"), (2, 2, "task")):
            display.counts(at, total, noun)
        display.begins("look", WHERE)
        assert "task 2 of 2, revenue_daily" in terminal.shown("look")


def test_the_steps_that_are_numbered_are_those_that_a_run_takes() -> None:
    assert STEPS == ("plan", "claim", "look", "compute", "stage", "audit", "publish")


class Terminal:
    """A real one, which somebody reads: what was written to `stream` can be waited for."""

    def __init__(self, stream: TextIO, end: int) -> None:
        self.stream, self._end = stream, end
        self._seen, self._more = "", threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def shown(self, marker: str) -> str:
        """All that was written since the last call, until the marker is."""
        with self._more:
            assert self._more.wait_for(lambda: marker in self._seen, 20), f"{marker!r} is not in {self._seen!r}"
            seen, self._seen = self._seen, ""
            return seen

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        with suppress(OSError):  # the other end is closed
            while chunk := os.read(self._end, 65536):
                with self._more:
                    self._seen += decoder.decode(chunk)
                    self._more.notify_all()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    for name in ("NO_COLOR", "CI", "TWICE_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(module, "_EVERY_S", 0.01)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        made = Terminal(stream, ours)
        yield made
    made.reader.join()
    os.close(ours)


def test_what_is_printed_meanwhile_goes_above_it_and_nothing_of_it_stays(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    display = Display(terminal.stream, on=True)
    with display.open():
        display.begins("stage", WHERE)
        seen = terminal.shown("stage")
        sys.stdout.write("a task has ended\n")
        seen += terminal.shown("ended")
        seen += terminal.shown("stage")
    sys.stdout.write("the end\n")
    sys.stdout.flush()
    seen += terminal.shown("the end")
    assert "\r\x1b[Ja task has ended\r\n" in seen
    assert seen.endswith("\r\x1b[Jthe end\r\n")
    assert sys.stdout is terminal.stream


def test_a_question_is_not_drawn_over(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    display = Display(terminal.stream, on=True)
    with display.open():
        display.begins("look", WHERE)
        terminal.shown("look")
        with current_display().paused():
            sys.stderr.write("really? ")
            sys.stderr.write("")  # as print does with its end
            threading.Event().wait(0.1)  # ten times as long as it takes to draw again
            seen = terminal.shown("really? ")
        assert seen.endswith("really? ")
        terminal.shown("look")  # it goes on


def test_several_threads_have_a_line_each(terminal: Terminal) -> None:
    display = Display(terminal.stream, on=True)
    working = threading.Barrier(3)

    def work(name: str) -> None:
        display.begins("stage", name)
        working.wait()
        working.wait()
        display.ends()

    with display.open():
        threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in ("one", "other")]
        for thread in threads:
            thread.start()
        working.wait()
        terminal.shown("one: stage")
        terminal.shown("other: stage")
        working.wait()
        for thread in threads:
            thread.join()


def test_a_process_that_is_forked_while_it_is_drawn_can_print(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`twice lint` reads files in processes of its own, and Python may warn of what it parses there."""
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    display = Display(terminal.stream, on=True)
    with display.open():
        display.begins("reading", "files")
        terminal.shown("reading")
        for _ in range(20):
            child = os.fork()
            if child == 0:
                sys.stderr.write("a warning\n")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        terminal.shown("a warning")


def test_a_terminal_that_fails_ends_the_drawing_and_nothing_else() -> None:
    class Broken(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            raise OSError("gone")

    display = Display(Broken(), on=True)
    with display.open():
        display.begins("stage", WHERE)
        display.counts(1, 2, "slice")
        display.learns("3 rows")
    assert not any(thread.name == "twice-display" for thread in threading.enumerate())


@pytest.mark.parametrize(("name", "value"), [("TWICE_PROGRESS", "0"), ("CI", "true"), ("TERM", "dumb")])
def test_it_is_off_where_nobody_wants_it(
    name: str, value: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert display_on(terminal.stream, quiet=False)
    assert not display_on(terminal.stream, quiet=True)
    monkeypatch.setenv(name, value)
    assert not display_on(terminal.stream, quiet=False)


def test_without_a_terminal_no_thread_is_started_and_no_stream_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, threading.active_count()
    display = Display(sys.stderr, display_on(sys.stderr, quiet=False))
    with display.open():
        display.begins("stage", WHERE)
        assert (sys.stdout, threading.active_count()) == before
        assert current_display() is display
    assert capsys.readouterr() == ("", "")
