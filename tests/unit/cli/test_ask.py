"""What only a person may order is not done without one."""

from __future__ import annotations

import sys

import pytest

from twice.cli.options import ask
from twice.cli.terminal import Screen
from twice.errors import UsageError

ALONE, KEPT = "a mark is not moved", "The mark is where it was."


def test_without_a_terminal_it_is_refused_with_the_option_that_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(UsageError) as refused:
        ask("move it?", ALONE, KEPT)
    expected = "a mark is not moved without a person's confirmation. The mark is where it was. Confirm it with --yes."
    assert str(refused.value) == expected


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_a_person_decides(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question, **_: answer)
    if answer:
        return ask("move it?", ALONE, KEPT)
    with pytest.raises(UsageError, match=r"^not confirmed\. The mark is where it was\.$"):
        ask("move it?", ALONE, KEPT)
    return None


@pytest.mark.parametrize("width", [None, 60])
def test_the_question_is_folded_on_a_terminal_with_room_for_the_answer(
    monkeypatch: pytest.MonkeyPatch, width: int | None
) -> None:
    question = "every record of the environment is deleted from this ledger, for good. No table is touched. Go on?"
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("twice.cli.options.screen_of", lambda _: Screen(width))
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return True

    monkeypatch.setattr("typer.confirm", confirm)
    ask(question, ALONE, KEPT)
    assert " ".join(asked[0].split()) == f"{question} [y/N]:"
    lines = asked[0].splitlines()
    assert len(lines) == 1 if width is None else max(map(len, lines)) <= width - len(" y")
