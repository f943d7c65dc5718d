"""replace: the run's rows take the place of the slice's rows. A second run leaves the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.scope import Scope
from twice.core.slice import Slice
from twice.core.write import ReplaceRows


@dataclass(frozen=True)
class Replace:
    name = "replace"

    def check(self, scope: Scope) -> None:
        """Every scope can be replaced: a slice names its rows, and the whole table is a slice too."""

    def compile(self, slices: tuple[Slice, ...]) -> ReplaceRows:
        return ReplaceRows(slices)


def replace() -> Replace:
    """Exchange the slice's rows for the result's, atomically. An empty result empties the slice."""
    return Replace()
