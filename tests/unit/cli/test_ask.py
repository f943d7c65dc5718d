"""What only a person may order is not done without one."""

from __future__ import annotations

import sys

import pytest

from twice.cli.options import ask
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
    monkeypatch.setattr("typer.confirm", lambda question, err: answer)
    if answer:
        return ask("move it?", ALONE, KEPT)
    with pytest.raises(UsageError, match=r"^not confirmed\. The mark is where it was\.$"):
        ask("move it?", ALONE, KEPT)
    return None
