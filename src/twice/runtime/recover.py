"""recover: settle every attempt that did not report back, and say what is still to be said. It never runs a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twice.core.run import AttemptState
from twice.runtime.collect import collect_all
from twice.runtime.effects import say
from twice.runtime.settle import lease_ran_out
from twice.runtime.workshop import Workshop


@dataclass(frozen=True)
class Recovered:
    """What became of one attempt: `state` is what the ledger says of it now."""

    attempt: str
    task: str
    labels: tuple[str, ...]
    state: AttemptState


def recover(shop: Workshop, session: Any) -> tuple[Recovered, ...]:
    """Close what the targets can decide, then what has lost its lease. A second call finds nothing to do.

    An attempt declared dead that wakes up after all loses at the target, or, if it lands first, is recorded
    as published: its staged files are not touched before that is decided. The same for one that was given up before.
    """
    before = (*shop.ledger.open_attempts(), *shop.ledger.undiscarded())
    collect_all(shop, session)
    for attempt in shop.ledger.open_attempts():
        if lease_ran_out(shop.ledger, attempt):
            shop.ledger.close_attempt(attempt.id, AttemptState.ABANDONED)
    say(shop, session)
    return tuple(
        Recovered(attempt.id, attempt.task, tuple(s.label for s in attempt.slices), after.state)
        for attempt in before
        if (after := shop.ledger.attempt(attempt.id)) is not None
        and not after.state.open
        and after.state is not attempt.state
    )
