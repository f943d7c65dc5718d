"""Same inputs? One hash over the leaves of a plan. Pure: how leaves are found is the engine's."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from twice.core.ledger.record import InputRecord
from twice.core.names.first_few import first_few
from twice.core.ports import ALLOWED, FUNCTION, INPUT_FILE, INPUT_FILES, PARAM, PLAN, Leaf

DECLARED = frozenset({INPUT_FILES, INPUT_FILE, PARAM})
"""Leaves that are known without a query plan: they are listed and read for what they are."""


@dataclass(frozen=True)
class InputChange:
    """Why what a slice was made of is not, or cannot be shown to be, what it was. `of_the_code`: other code mostly
    brings it with it, and it is no reason of its own then."""

    why: str
    of_the_code: bool = False


def inputs_hash(leaves: Iterable[Leaf]) -> str | None:
    """None if any leaf is unversioned, or if there is none: then nothing can be shown to be the same.

    Names and versions do not count: a table may be moved, and a commit elsewhere in it changes no row read here. One
    declared file counts with all of its input: it has a leaf of its own only to be named.
    """
    identities = {(leaf.kind, leaf.identity) for leaf in leaves if leaf.kind != INPUT_FILE}
    if not identities or any(identity is None for _, identity in identities):
        return None
    lines = "\n".join(sorted(f"{kind} {identity}" for kind, identity in identities))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def what_changed(leaves: Sequence[Leaf], before: Sequence[Leaf]) -> InputChange | None:
    """What beside its tables is not as it was when the slice was published from `before`, or may not be, or that its
    tables are not; None if it is all the same, or not known."""
    for leaf in leaves:
        if leaf.kind == ALLOWED:
            return InputChange(f"{leaf.name}, which the task allows, may differ on every run")
        if leaf.kind in (FUNCTION, PLAN) and leaf.identity is None:
            return InputChange(f"nothing shows that it is the same: its {leaf.kind} {leaf.name}")
    declared = declared_change(leaves, before) if before else None
    if declared is not None:
        return InputChange(declared)
    if before and _tables(leaves) != _tables(before):
        # Of the same versions, other columns or other files are read: the code asks for them.
        return InputChange(INPUTS_CHANGED, of_the_code=_same_versions(leaves, before))
    if any(leaf.identity is None for leaf in leaves):
        return InputChange(NO_VERSION)  # its plan may name a snapshot, and be another one each time
    if not has_plan(before):
        return InputChange(EARLIER, of_the_code=True) if before and has_plan(leaves) else None
    for kind, what in ((FUNCTION, _OTHER_VALUES), (PLAN, _OTHER_PLAN)):
        now, then = ({leaf.identity for leaf in each if leaf.kind == kind} for each in (leaves, before))
        if now != then:
            return InputChange(what, of_the_code=True)
    return None


def declared_change(leaves: Iterable[Leaf | InputRecord], before: Iterable[Leaf | InputRecord]) -> str | None:
    """Which declared file or value is not what it was; None if all are."""
    now, then = [[leaf for leaf in each if leaf.kind in DECLARED] for each in (leaves, before)]
    here, there = ({(leaf.kind, leaf.identity) for leaf in each if leaf.kind != INPUT_FILE} for each in (now, then))
    if here == there:
        return None
    values = {_first_word(leaf.name): leaf.identity for leaf in then if leaf.kind == PARAM}
    for leaf in now:
        if leaf.kind == PARAM and leaf.identity != values.get(_first_word(leaf.name)):
            return f"its param {leaf.name} changed"
    found = _changed_files(now, then)
    if found:
        return f"its files changed: {first_few(found)}"
    known = {leaf.identity for leaf in then}
    sets = [leaf.name for leaf in now if leaf.kind == INPUT_FILES and leaf.identity not in known]
    return f"its files changed: {', '.join(sets)}" if sets else INPUTS_CHANGED


def _changed_files(now: Iterable[Leaf | InputRecord], then: Iterable[Leaf | InputRecord]) -> list[str]:
    here, there = ({leaf.name: leaf.identity for leaf in each if leaf.kind == INPUT_FILE} for each in (now, then))
    return (
        [f"{name} is new" for name in here if name not in there and there]
        + [f"{name} changed" for name in here if name in there and here[name] != there[name]]
        + [f"{name} is gone" for name in there if name not in here and here]
    )


def _first_word(text: str) -> str:
    return text.partition(" ")[0]


AT_SNAPSHOT = " at snapshot "
NOT_WATCHED = "not watched"
"""The identity of a leaf that has none of its own and is not watched: it is the same whatever it holds."""


def not_watched(leaves: Iterable[Leaf], names: Collection[str]) -> tuple[Leaf, ...]:
    """The leaves, where what is not watched has an identity in any case."""
    return tuple(
        replace(leaf, identity=NOT_WATCHED) if leaf.identity is None and source_name(leaf.name) in names else leaf
        for leaf in leaves
    )


def as_published(leaves: Sequence[Leaf], before: Iterable[Leaf], names: Collection[str]) -> tuple[Leaf, ...]:
    """The leaves to compare with those of the last publish: what is not watched is given as it was then. So a slice is
    as right as before when its input is no longer watched; watched again, all that came since counts."""
    held = tuple(dict.fromkeys(leaf for leaf in before if source_name(leaf.name) in names))
    known = {source_name(leaf.name) for leaf in held}
    return (*(leaf for leaf in leaves if source_name(leaf.name) not in known), *held)


def source_name(name: str) -> str:
    """What a leaf is of: a server's table is read in a snapshot, and another one each time."""
    return name.partition(AT_SNAPSHOT)[0]


def has_plan(leaves: Iterable[Leaf | InputRecord]) -> bool:
    """Whether it was recorded what a slice depends on beside its tables. A query needs no such record: it is its
    text."""
    return any(leaf.kind == PLAN for leaf in leaves)


INPUTS_CHANGED = "its inputs changed"
NO_VERSION = "an input has no version to compare"
EARLIER = "an earlier version of twice published it, and did not record what its code takes from elsewhere"
_OTHER_VALUES = "a function that it calls computes with other values"
_OTHER_PLAN = "its code makes another plan than before, of values that it takes from elsewhere"


def _same_versions(leaves: Iterable[Leaf], before: Iterable[Leaf]) -> bool:
    """Of tables that have versions, and of nothing else."""
    now, then = (
        {(leaf.kind, leaf.name, leaf.version) for leaf in each if leaf.kind not in (FUNCTION, PLAN, INPUT_FILE)}
        for each in (leaves, before)
    )
    return now == then and all(version is not None for _, _, version in now)


def _tables(leaves: Iterable[Leaf]) -> set[tuple[str, str | None]]:
    return {(leaf.kind, leaf.identity) for leaf in leaves if leaf.kind not in (FUNCTION, PLAN, INPUT_FILE)}
