"""replace: the run's rows take the place of the slice's rows. A second run leaves the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.scope import Scope, slice_column_of
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Policy
from twice.core.write import Layout, ReplaceRows
from twice.errors import DeclarationError


@dataclass(frozen=True)
class Replace:
    name = "replace"
    restatable = True

    def check(self, scope: Scope, policy: Policy) -> None:  # noqa: ARG002 - every policy suits it
        """A slice names its rows, and the whole table is a slice too. What comes after a mark is neither."""
        if isinstance(scope, Since):
            raise DeclarationError(
                "replace() has nothing to replace on Since(…): what came after a mark is no slice of the table",
                fix='Use merge("key", newest_by=…), insert_new("key") or append_once().',
            )

    def layout(self, scope: Scope) -> Layout:
        return Layout(slice_column_of(scope))

    def compile(self, slices: tuple[Slice, ...]) -> ReplaceRows:
        return ReplaceRows(slices)


def replace() -> Replace:
    """Exchange the slice's rows for the result's, atomically. An empty result empties the slice."""
    return Replace()
