"""Whether the same effects were sent as often as by one clean run. Pure."""

from __future__ import annotations

from collections import Counter

from twice.core.results.proof import Cause, Difference


def compare_effects(clean: Counter[str], other: Counter[str], cause: str, fix: str) -> Difference | None:
    """None if the same was sent as often. The numbers are how often each effect's receiver acted."""
    odd = sorted(name for name in clean | other if clean[name] != other[name])
    if not odd:
        return None
    counts = (f"{name} was sent {other[name]} times where one clean run sends it {clean[name]} times" for name in odd)
    causes = (Cause(cause, (), "; ".join(counts), fix),)
    return Difference((), sum((clean - other).values()), sum((other - clean).values()), causes=causes)
