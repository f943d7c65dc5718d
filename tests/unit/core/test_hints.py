"""One sentence for two kinds of callers: options of the command line, arguments in Python."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from twice.core.hints import Option, command, hint, hints_for, option
from twice.errors import Hint, UsageError, followed_by


@pytest.mark.parametrize(
    ("named", "command_line", "python"),
    [
        (option("date", "2026-06-09"), "--date 2026-06-09", 'date="2026-06-09"'),
        (option("wait"), "--wait", "wait=…"),
        (option("restate", True), "--restate", "restate=True"),
        (option("batch", 3), "--batch 3", "batch=3"),
        (option("only", ("missing", "stale")), "--only missing,stale", 'only=["missing", "stale"]'),
        (option("from", "2026-01-01"), "--from 2026-01-01", 'first="2026-01-01"'),
        (option("to", "2026-01-31"), "--to 2026-01-31", 'last="2026-01-31"'),
        (option("table", ("shop.orders",)), "--table shop.orders", 'tables=["shop.orders"]'),
        (option("with-downstream", True), "--with-downstream", "with_downstream=True"),
    ],
)
def test_an_option_is_an_argument_in_python(named: Option, command_line: str, python: str) -> None:
    message = hint("Give {}.", named)
    assert (message, message.python) == (f"Give {command_line}.", f"Give {python}.")


def test_a_command_is_a_call_in_python() -> None:
    message = hint("See {}; then {}.", command("history", "revenue", date="2026-06-09"), command("retry", "revenue"))
    assert message == "See twice history revenue --date 2026-06-09; then twice retry revenue."
    assert message.python == 'See twice.history("revenue", date="2026-06-09"); then twice.retry("revenue").'


def test_plain_text_in_a_hint_is_the_same_for_both_and_may_hold_braces() -> None:
    message = hint("{} is wrong; give {}.", "'{x}'", option("date"))
    assert (message, message.python) == ("'{x}' is wrong; give --date.", "'{x}' is wrong; give date=….")


def test_a_hint_is_its_command_line_text_wherever_nobody_asks() -> None:
    error = UsageError("no", fix=hint("Give {}.", option("date", "2026-06-09")))
    assert str(error) == "no. Give --date 2026-06-09."
    assert type(error.details()["fix"]) is str


def test_a_hint_crosses_processes() -> None:
    again = pickle.loads(pickle.dumps(UsageError("no", fix=hint("Give {}.", option("wait")))))
    assert isinstance(again.fix, Hint)
    assert (again.fix, again.fix.python) == ("Give --wait.", "Give wait=….")


def test_what_follows_a_hint_is_added_for_both() -> None:
    both = followed_by(hint("Give {}.", option("wait")), "(Tried twice.)")
    assert isinstance(both, Hint)
    assert (both, both.python) == ("Give --wait. (Tried twice.)", "Give wait=…. (Tried twice.)")
    assert followed_by("", "(Tried twice.)") == "(Tried twice.)"


def test_in_python_a_call_has_the_project_and_the_profile_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    message = hint("See {}, or {}: twice mark reset revenue --to ….", command("history", "revenue"), command("status"))
    there = hints_for(Path("my shop"), "prod")
    assert there.in_python(message) == (
        'See twice.history("revenue", project="my shop", profile="prod"), '
        'or twice.status(project="my shop", profile="prod"): '
        "twice mark reset --project 'my shop' --profile prod revenue --to …."
    )
    assert hints_for(Path(), None).in_python(message) == message.python
    assert there.in_python("it ran twice.") == "it ran twice."
