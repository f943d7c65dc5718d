"""How often the receivers of a task's effects acted in a scratch copy, compared with one clean run."""

from __future__ import annotations

from collections import Counter

from twice.core.ledger.outbox import EffectState
from twice.core.results.proof import Difference
from twice.proof.effect_counts import compare_effects
from twice.proof.tasks.scratch import ScratchCopy

_ALL = 100_000


def count_effects(copy: ScratchCopy) -> Counter[str]:
    """By effect: how often its receiver acted. One that goes by a key acts once per key. What is in doubt counts as
    sent: a person decides on it."""
    outbox = copy.context.ledger.outbox
    names = {record.key: record.name for record in outbox.listed((), copy.task.name, _ALL)}
    acted: Counter[str] = Counter()
    keys: set[str] = set()
    for outgoing in copy.sent:
        if not outgoing.keyed or outgoing.key not in keys:
            acted[names.get(outgoing.key, outgoing.key)] += 1
        keys.add(outgoing.key)
    for record in outbox.listed((EffectState.IN_DOUBT,), copy.task.name, _ALL):
        acted[record.name] += record.key not in keys
    return +acted


def effects_differ(clean: Counter[str], copy: ScratchCopy) -> Difference | None:
    """None if the same was sent as often."""
    fix = "Give the receiver a key (webhook(…, idempotency_key=True)), so that it acts once."
    return compare_effects(clean, count_effects(copy), "effect", fix)
