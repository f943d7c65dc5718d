"""The user's tables as a proof sees them: read at one version, never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.ports import Foreign, Held, Landed, Lost, Prepared, Published, Staged, Target, Touched
from twice.core.slice import Slice
from twice.core.task import TableName
from twice.core.token import Note


@dataclass(frozen=True)
class Pinned:
    """A table of the user's, for reading at one version in every world. What would write it is refused."""

    inner: Target
    pins: dict[TableName, int]

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        found = self.inner.published(table, token_names)
        if found.version is None:
            return found
        return replace(found, version=self.pins.setdefault(table, found.version))

    def read(self, table: TableName, at: int | Staged | None = None) -> Any:
        return self.inner.read(table, self.pins.get(table) if at is None else at)

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

    def prepare(self, table: TableName, *_: Any) -> Prepared:
        raise _not_ours(table)

    def stage(self, table: TableName, *_: Any, **__: Any) -> Staged:
        raise _not_ours(table)

    def duplicates(self, staged: Staged, *_: Any) -> int | None:
        raise _not_ours(staged.table)

    def commit(self, staged: Staged, *_: Any) -> Landed | Lost:
        raise _not_ours(staged.table)

    def discard(self, table: TableName, *_: Any) -> int:
        raise _not_ours(table)

    def forget(self, table: TableName, *_: Any) -> int:
        raise _not_ours(table)


def _not_ours(table: TableName) -> AssertionError:
    return AssertionError(f"a proof was about to write {table}, which is the user's")
