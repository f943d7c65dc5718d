"""What a terminal gets beyond plain text."""

from __future__ import annotations

import io
import os
import pty
from collections.abc import Iterator
from typing import TextIO

import pytest

from twice.cli.terminal import PIPE, Screen, Symbol, cut, say, say_table, screen_of, table_lines

NARROW = Screen(40, colours=False, letters=True)
ROWS = [("a_task_with_quite_a_long_name[2026-06-09]", "3", "the reason of which is a long sentence, longer than that")]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        yield stream
    os.close(ours)


def test_a_terminal_has_colours_and_symbols(terminal: TextIO) -> None:
    screen = screen_of(terminal)
    assert screen == Screen(80, colours=True, letters=True)
    assert screen.marked(Symbol.DONE, "published") == "\x1b[32m✓\x1b[0m published"


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("CI", "true")])
def test_a_terminal_nobody_looks_at_is_a_pipe(
    name: str, value: str, terminal: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert screen_of(terminal) == PIPE


def test_no_color_leaves_the_symbols(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert screen_of(terminal).marked(Symbol.FAILED, "failed") == "✗ failed"


def test_a_terminal_of_other_letters_gets_symbols_it_knows() -> None:
    assert Screen(80).marked(Symbol.FAILED, "failed") == "x failed"


def test_a_pipe_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"revenue[2026-06-09]: published {'word ' * 60}"
    say(text, Symbol.DONE)
    assert capsys.readouterr().out == f"{text}\n"
    closed = io.StringIO()
    closed.close()
    assert screen_of(closed) == PIPE


def test_a_long_line_is_broken_between_words_and_goes_on_indented() -> None:
    assert NARROW.folded("  why: published by other code than the one of now") == (
        "  why: published by other code than the\n    one of now"
    )


def test_a_command_that_is_broken_can_still_be_copied_as_one() -> None:
    text = "next: twice backfill revenue --from 2026-06-01 --to 2026-06-09 --only stale (it looks first, as every run)"
    assert NARROW.folded(text).split("\n") == [
        "next: twice backfill revenue \\",
        "  --from 2026-06-01 --to 2026-06-09 \\",
        "  --only stale (it looks first, as every",
        "  run)",
    ]


def test_a_word_that_is_longer_than_a_line_stays_whole() -> None:
    path = "/a" * 30
    assert NARROW.folded(f"written to {path}") == f"written to\n  {path}"


def test_colour_takes_no_columns() -> None:
    painted = Screen(40, colours=True, letters=True)
    line = f"{painted.paint('x' * 20, 'red')} {'y' * 19}"
    assert painted.folded(line) == line


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("short", 10, "short"),
        ("2026-06-09..2026-06-30", 11, "2026-…06-30"),
        ("abc", 1, "…"),
        ("日本語の名前", 7, "日本…前"),
    ],
)
def test_what_is_cut_keeps_its_beginning_and_its_end(text: str, room: int, shown: str) -> None:
    assert cut(text, room) == shown


def test_a_table_in_a_pipe_is_as_wide_as_it_is() -> None:
    assert table_lines(("slice", "rows", "why"), ROWS) == [
        "slice                                      rows  why",
        "a_task_with_quite_a_long_name[2026-06-09]  3     " + ROWS[0][2],
    ]


def test_a_table_on_a_terminal_fits_it() -> None:
    lines = "\n".join(table_lines(("slice", "rows", "why"), ROWS, Screen(60, letters=True))).split("\n")
    assert lines == [
        "slice                         rows  why",
        "a_task_with_qu…e[2026-06-09]  3     the reason of which is a",
        "                                    long sentence, longer",
        "                                    than that",
    ]


def test_a_number_and_a_name_that_a_command_takes_are_never_cut() -> None:
    head = ("project", "environment", "tasks", "slices", "newest record", "")
    rows = [("shop", "file:/srv/warehouses/of/the/shop", "2", "1,500", "2026-06-09 10:00:00", "this one")]
    assert "\n".join(table_lines(head, rows, NARROW, cuts=())).split("\n") == [
        "shop",
        "  environment",
        "    file:/srv/warehouses/of/the/shop",
        "  tasks 2  slices 1,500",
        "  newest record 2026-06-09 10:00:00",
        "  this one",
    ]


def test_of_a_table_that_is_too_wide_only_what_may_be_cut_is_cut() -> None:
    head, row = ("id", "effect", "state"), ("12", "a_task_with_quite_a_long_name[2026-06-09] done", "released")
    assert table_lines(head, [row], NARROW, cuts=(1,)) == [
        "id  effect                      state",
        "12  a_task_with_q…-06-09] done  released",
    ]


def test_where_a_table_has_no_room_each_row_keeps_its_symbol(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("twice.cli.terminal.screen_of", lambda _: Screen(30, letters=True))
    rows = [("a_name_that_is_rather_long", "daily", "2026-06-09", "1 published"), ("b", "daily", "-", "-")]
    say_table(("task", "scope", "newest", "slices"), rows, cuts=(), marks=[Symbol.DONE, Symbol.FAILED])
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines if line[0] != " "] == ["✓", "✗"]
    assert all(len(line) <= 30 for line in lines)
