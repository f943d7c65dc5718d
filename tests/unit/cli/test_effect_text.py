"""What a run says of each effect, by the state it is in, on the first run and on the second."""

from __future__ import annotations

import pytest

from twice.cli.effects import effect_text
from twice.core.ledger.outbox import EffectState
from twice.core.results.run import EffectEnd

S = EffectState
TEXTS = {
    S.PREPARED: "not sent: its publish has not landed (why)",
    S.CANCELLED: "cancelled, not sent (why)",
    S.RELEASED: "waiting, its text is not rendered yet (why); next: twice effects send",
    S.PENDING: "waiting, not sent yet (why); next: twice effects send",
    S.SENDING: "being sent, or its sender stopped reporting (why); next: twice effects show 7",
    S.IN_DOUBT: "IN DOUBT, it may have arrived (why); next: twice effects show 7",
    S.DEAD: "DEAD, it was not sent and is not retried (why); next: twice effects show 7",
    S.ABANDONED: "abandoned, it is not sent any more (why)",
    S.UNKNOWN: "UNKNOWN whether it was sent, so it is not sent again (why); next: twice effects show 7",
}


def end(state: EffectState, already: bool, why: str | None = "why") -> EffectEnd:
    return EffectEnd("2026-06-09", "pay", 7, state, why, already)


@pytest.mark.parametrize("state", [state for state in S if state is not S.SENT])
def test_the_second_run_says_of_an_effect_what_the_first_said(state: EffectState) -> None:
    assert effect_text(end(state, already=False)) == TEXTS[state]
    assert effect_text(end(state, already=True)) == TEXTS[state]


def test_only_what_was_sent_is_shown_as_sent() -> None:
    assert effect_text(end(S.SENT, already=False, why=None)) == "sent"
    assert effect_text(end(S.SENT, already=True, why=None)) == "already sent"
    assert not [text for text in TEXTS.values() if text.startswith(("sent", "already"))]
