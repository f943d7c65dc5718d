"""Same inputs? One hash over the leaves of a plan. Pure: how leaves are found is the engine's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from twice.core.ledger.record import InputRecord
from twice.core.ports import ALLOWED, FUNCTION, PLAN, Leaf


def inputs_hash(leaves: Iterable[Leaf]) -> str | None:
    """None if any leaf is unversioned, or if there is none: then nothing can be shown to be the same.

    Names and versions do not count: a table may be moved, and a commit elsewhere in it changes no row read here.
    """
    identities = {(leaf.kind, leaf.identity) for leaf in leaves}
    if not identities or any(identity is None for _, identity in identities):
        return None
    lines = "\n".join(sorted(f"{kind} {identity}" for kind, identity in identities))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def what_changed(leaves: Sequence[Leaf], before: Sequence[Leaf]) -> str | None:
    """What beside its tables is not as it was when the slice was published from `before`, or may not be, or that its
    tables are not; None if it is all the same, or not known."""
    for leaf in leaves:
        if leaf.kind == ALLOWED:
            return f"{leaf.name}, which the task allows, may differ on every run"
        if leaf.kind in (FUNCTION, PLAN) and leaf.identity is None:
            return f"nothing shows that it is the same: its {leaf.kind} {leaf.name}"
    if before and _tables(leaves) != _tables(before):
        return INPUTS_CHANGED
    if any(leaf.identity is None for leaf in leaves):
        return NO_VERSION  # its plan may name a snapshot, and be another one each time
    if not has_plan(before):
        return EARLIER if before and has_plan(leaves) else None
    for kind, what in ((FUNCTION, "a function that it calls computes with other values"), (PLAN, _OTHER_PLAN)):
        now, then = ({leaf.identity for leaf in each if leaf.kind == kind} for each in (leaves, before))
        if now != then:
            return what
    return None


def has_plan(leaves: Iterable[Leaf | InputRecord]) -> bool:
    """Whether it was recorded what a slice depends on beside its tables. A query needs no such record: it is its
    text."""
    return any(leaf.kind == PLAN for leaf in leaves)


INPUTS_CHANGED = "its inputs changed"
NO_VERSION = "an input has no version to compare"
EARLIER = "an earlier version of twice published it, and did not record what its code takes from elsewhere"
_OTHER_PLAN = "its code makes another plan than before, of values that it takes from elsewhere"


def _tables(leaves: Iterable[Leaf]) -> set[tuple[str, str | None]]:
    return {(leaf.kind, leaf.identity) for leaf in leaves if leaf.kind not in (FUNCTION, PLAN)}
