"""replace: the run's rows take the place of the slice's rows. A second run leaves the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twice.core.closed import assert_never
from twice.core.scope import Scope, Whole, slice_column_of
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Policy, Strategy
from twice.core.time_scope import TimeScope
from twice.core.write import Layout, ReplaceRows, WriteKind
from twice.errors import DeclarationError


@dataclass(frozen=True)
class Replace:
    name = "replace"
    restatable = True
    kind: ClassVar[WriteKind] = "replace"
    key: ClassVar[tuple[str, ...]] = ()
    newest_by: ClassVar[str | None] = None

    def check(self, scope: Scope, policy: Policy) -> None:  # noqa: ARG002 - every policy suits it
        """A slice names its rows, and the whole table is a slice too. What comes after a mark is neither."""
        match scope:
            case TimeScope() | Whole():
                pass
            case Since():
                raise DeclarationError(
                    "replace() has nothing to replace on Since(…): what came after a mark is not a slice of the table",
                    fix='Use merge("key", newest_by=…), insert_new("key") or append_once().',
                )
            case _:
                assert_never(scope)

    def layout(self, scope: Scope) -> Layout:
        return Layout(slice_column_of(scope))

    def compile(self, slices: tuple[Slice, ...]) -> ReplaceRows:
        return ReplaceRows(slices)


def replace() -> Strategy:
    """Exchange the slice's rows for the result's, atomically. An empty result empties the slice."""
    return Replace()
