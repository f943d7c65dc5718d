"""What a run says of an effect: by its state, whichever run prepared it."""

from __future__ import annotations

from twice.cli.hints import runnable
from twice.core.closed import assert_never
from twice.core.ledger.outbox import EffectState
from twice.core.results.run import EffectEnd


def effect_text(effect: EffectEnd) -> str:
    """Whether it was sent, and what leads on from here."""
    why = f" ({effect.why})" if effect.why else ""
    send, show = runnable("; next: twice effects send"), runnable(f"; next: twice effects show {effect.id}")
    match effect.state:
        case EffectState.SENT:
            return f"{'already ' if effect.already else ''}sent{why}"
        case EffectState.RELEASED:
            return f"waiting, its text is not made yet{why}{send}"
        case EffectState.PENDING:
            return f"waiting, not sent yet{why}{send}"
        case EffectState.SENDING:
            return f"being sent, or its sender fell silent{why}{show}"
        case EffectState.IN_DOUBT:
            return f"IN DOUBT, it may have arrived{why}{show}"
        case EffectState.DEAD:
            return f"DEAD, it was not sent and will not be by itself{why}{show}"
        case EffectState.UNKNOWN:
            return f"UNKNOWN whether it was sent, so it is not sent again{why}{show}"
        case EffectState.ABANDONED:
            return f"abandoned, it is not sent any more{why}"
        case EffectState.PREPARED:
            return f"not sent: its publish has not landed{why}"
        case EffectState.CANCELLED:
            return f"cancelled, not sent{why}"
        case _:
            assert_never(effect.state)
