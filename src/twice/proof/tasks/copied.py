"""A world's own copy of the task's table: whoever published what came with the copy, it is this world's to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.owner import Ownership
from twice.core.ports import Foreign, Held, Landed, Lost, Prepared, Published, Staged, Target, Touched
from twice.core.slice import Slice
from twice.core.task import TableName
from twice.core.token import Note


@dataclass(frozen=True)
class Copied:
    """The clone carries the tokens of the user's project, which to the world's project are another's: a task would be
    refused its own table. All else is the inner target's."""

    inner: Target

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        return replace(self.inner.published(table, token_names), owners=Ownership())

    def prepare(self, table: TableName, *given: Any) -> Prepared:
        return self.inner.prepare(table, *given)

    def tokens(self, table: TableName, prefix: str) -> Mapping[str, Held]:
        return self.inner.tokens(table, prefix)

    def provenance(self, table: TableName, token_name: str, generation: int) -> Note | None:
        return self.inner.provenance(table, token_name, generation)

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        return self.inner.foreign(table, since, slices)

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:
        return self.inner.touched(table, since, column)

    def one_slice_only(self, table: TableName) -> str | None:
        return self.inner.one_slice_only(table)

    def stage(self, table: TableName, *given: Any, **named: Any) -> Staged:
        return self.inner.stage(table, *given, **named)

    def duplicates(self, staged: Staged, columns: Sequence[str]) -> int | None:
        return self.inner.duplicates(staged, columns)

    def commit(self, staged: Staged, *given: Any) -> Landed | Lost:
        return self.inner.commit(staged, *given)

    def discard(self, table: TableName, *given: Any) -> int:
        return self.inner.discard(table, *given)

    def forget(self, table: TableName, *given: Any) -> int:
        return self.inner.forget(table, *given)

    def read(self, table: TableName, at: int | Staged | None = None) -> Any:
        return self.inner.read(table, at)
