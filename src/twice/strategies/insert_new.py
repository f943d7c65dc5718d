"""insert_new: rows whose key the table does not have are inserted, and no other row is touched.
A second run inserts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from twice.core.scope import Scope
from twice.core.slice import Slice
from twice.core.task import Policy, Strategy
from twice.core.write import Layout, UpsertRows, WriteKind
from twice.strategies.keyed import checked_key


@dataclass(frozen=True)
class InsertNew:
    name = "insert_new"
    restatable = True
    kind: ClassVar[WriteKind] = "upsert"
    newest_by: ClassVar[str | None] = None

    key: tuple[str, ...]

    def check(self, scope: Scope, policy: Policy) -> None:
        """Every scope suits it: what is there stays, whatever comes."""

    def layout(self, scope: Scope) -> Layout:  # noqa: ARG002 - the scope cuts the inputs alone
        return Layout(key=self.key, any_partitions=True)

    def compile(self, slices: tuple[Slice, ...]) -> UpsertRows:
        return UpsertRows(slices, self.key, insert_only=True)


def insert_new(key: str | Sequence[str]) -> Strategy:
    """Insert the rows whose key is new. How many rows of known keys differ from the table's is reported."""
    return InsertNew(checked_key(key, "insert_new"))
