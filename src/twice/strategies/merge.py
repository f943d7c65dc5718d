"""merge: rows are matched on a natural key; new ones are inserted, changed ones updated, unchanged ones left.
A second run changes no row and rewrites no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from twice.core.closed import assert_never
from twice.core.scope import Scope, Whole, slice_column_of
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Policy, Strategy
from twice.core.time_scope import TimeScope
from twice.core.write import Layout, NullKeys, UpsertRows, WriteKind
from twice.errors import DeclarationError
from twice.strategies.keyed import checked_key

MergeOrder = Literal["newest", "any"]
"""Of two rows of a key, the newer one stays; or any of them, where it does not matter."""


@dataclass(frozen=True)
class Merge:
    name = "merge"
    restatable = True
    kind: ClassVar[WriteKind] = "upsert"

    key: tuple[str, ...]
    newest_by: str | None = None
    delete_missing: bool = False
    order: MergeOrder = "newest"
    null_keys: NullKeys = "refuse"

    def check(self, scope: Scope, policy: Policy) -> None:  # noqa: ARG002 - every policy suits it
        match scope:
            case Whole():
                pass
            case TimeScope():
                self._check_ordered()
            case Since():
                self._check_ordered()
                self._check_keeps_missing()
            case _:
                assert_never(scope)

    def _check_ordered(self) -> None:
        if self.newest_by is None and self.order != "any":
            raise DeclarationError(
                "merge on a time scope needs newest_by: an old slice run again would undo what a newer one wrote",
                fix='Name the column that tells which row is newer, newest_by="updated_at", or say that the order '
                'does not matter: order="any".',
            )

    def _check_keeps_missing(self) -> None:
        if self.delete_missing:
            raise DeclarationError(
                "delete_missing has no meaning on Since(…): a row that did not change is not missing",
                fix="Leave it out, or merge a slice (Daily, …) or the whole table (Whole).",
            )

    def layout(self, scope: Scope) -> Layout:
        """Only deleting needs to know which rows are the slice's: otherwise the scope cuts the inputs alone."""
        return Layout(
            slice_column_of(scope) if self.delete_missing else None,
            self.key,
            any_partitions=True,
            null_keys=self.null_keys == "match",
        )

    def compile(self, slices: tuple[Slice, ...]) -> UpsertRows:
        return UpsertRows(
            slices, self.key, self.newest_by, delete_missing=self.delete_missing, null_keys=self.null_keys
        )


def merge(
    key: str | Sequence[str],
    *,
    newest_by: str | None = None,
    delete_missing: bool = False,
    order: MergeOrder = "newest",
    null_keys: NullKeys = "refuse",
) -> Strategy:
    """Insert rows with a new key, update the others unless the table's row is newer or the same.

    `newest_by` names the column that tells which of two rows is newer. `delete_missing` deletes the slice's rows
    whose key the result does not have. `null_keys="match"` lets NULL be a key like any other.
    """
    columns = checked_key(key, "merge")
    if newest_by is not None and not newest_by.strip():
        raise DeclarationError("newest_by='': the column name is empty", fix="Leave it out, or name the column.")
    if newest_by is not None and newest_by.lower() in {column.lower() for column in columns}:
        raise DeclarationError(
            f"newest_by={newest_by!r} is part of the key, so no two rows of a key can differ by it",
            fix="Take it out of the key, or leave out newest_by=.",
        )
    if order not in ("newest", "any"):
        raise DeclarationError(f"order={order!r} is not known", fix='Leave it out, or write order="any".')
    if newest_by is not None and order == "any":
        raise DeclarationError('newest_by= and order="any" contradict each other', fix="Leave one of them out.")
    if null_keys not in ("refuse", "match"):
        raise DeclarationError(f"null_keys={null_keys!r} is not known", fix='Leave it out, or write "match".')
    return Merge(columns, newest_by, delete_missing, order, null_keys)
