"""What receivers heard in a world, and whether it is what one clean run says."""

from __future__ import annotations

from collections import Counter

from twice.core.outbox import EffectState
from twice.core.proof import Cause, Difference
from twice.proof.tasks.scratch import ScratchCopy

_ALL = 100_000


def said(copy: ScratchCopy) -> Counter[str]:
    """By effect: how often its receiver acted. One that goes by a key acts once per key. What is in doubt counts as
    said: a person decides on it."""
    outbox = copy.context.ledger.outbox
    names = {record.key: record.name for record in outbox.listed((), copy.task.name, _ALL)}
    heard: Counter[str] = Counter()
    keys: set[str] = set()
    for outgoing in copy.sent:
        if not outgoing.keyed or outgoing.key not in keys:
            heard[names.get(outgoing.key, outgoing.key)] += 1
        keys.add(outgoing.key)
    for record in outbox.listed((EffectState.IN_DOUBT,), copy.task.name, _ALL):
        heard[record.name] += record.key not in keys
    return +heard


def sent_more(clean: Counter[str], other: Counter[str]) -> Difference | None:
    """None if the same was said as often."""
    odd = tuple(sorted(name for name in clean | other if clean[name] != other[name]))
    if not odd:
        return None
    cause = Cause(
        "effect",
        (),
        f"{', '.join(odd)}: said {_times(other, odd)} where one clean run says it {_times(clean, odd)}",
        "Give the receiver a key (webhook(key=…)), so that it acts once.",
    )
    return Difference((), sum((clean - other).values()), sum((other - clean).values()), causes=(cause,))


def _times(heard: Counter[str], names: tuple[str, ...]) -> str:
    return ", ".join(f"{heard[name]} times" for name in names)
