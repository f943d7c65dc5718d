"""Same inputs? One hash over the leaves of a plan. Pure: how leaves are found is the engine's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from twice.core.ports import Leaf


def inputs_hash(leaves: Iterable[Leaf]) -> str | None:
    """None if any leaf is unversioned, or if there is none: then nothing can be shown to be the same.

    Names and versions do not count: a table may be moved, and a commit elsewhere in it changes no row read here.
    """
    identities = {(leaf.kind, leaf.identity) for leaf in leaves}
    if not identities or any(identity is None for _, identity in identities):
        return None
    lines = "\n".join(sorted(f"{kind} {identity}" for kind, identity in identities))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]
