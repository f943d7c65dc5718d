"""Write verbs: what a strategy compiles to and a target carries out. Strategies and targets meet only here."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.slice import Slice


@dataclass(frozen=True)
class ReplaceRows:
    """Exactly the rows of these slices are exchanged for the staged ones; no other row is touched."""

    slices: tuple[Slice, ...]


WriteVerb = ReplaceRows


@dataclass(frozen=True)
class Plan:
    """One atomic publish: what is written, and the token of each slice that lands in the same commit."""

    write: WriteVerb
    slices: tuple[Slice, ...]
    app_ids: tuple[str, ...]

    def app_id(self, slice_: Slice) -> str:
        return self.app_ids[self.slices.index(slice_)]
