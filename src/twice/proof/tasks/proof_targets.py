"""The two kinds of tables a scratch copy works with: its own copy, which it may write, and the user's, which are read
at one version and never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twice.core.ports import Foreign, Held, Landed, Lost, PreparedTable, Published, Staged, Target, Touched
from twice.core.slice import Slice
from twice.core.table.owner import Ownership
from twice.core.table.token import CommitNote
from twice.core.task import TableName


@dataclass(frozen=True)
class _ReadsThrough:
    """What only reads is passed on to the inner target. What writes is not inherited: each kind says what it does."""

    inner: Target

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        return self.inner.published(table, token_names)

    def read(self, table: TableName, at: int | Staged | None = None) -> Any:
        return self.inner.read(table, at)

    def tokens(self, table: TableName, prefix: str) -> Mapping[str, Held]:
        return self.inner.tokens(table, prefix)

    def provenance(
        self, table: TableName, token_name: str, generation: int, at: int | None = None
    ) -> CommitNote | None:
        return self.inner.provenance(table, token_name, generation, at)

    def foreign(self, table: TableName, since: int, slices: Sequence[Slice]) -> tuple[Foreign, ...]:
        return self.inner.foreign(table, since, slices)

    def touched(self, table: TableName, since: int, column: str | None) -> Touched | None:
        return self.inner.touched(table, since, column)

    def one_slice_only(self, table: TableName) -> str | None:
        return self.inner.one_slice_only(table)

    def check_exchange(self, table: TableName) -> None:
        self.inner.check_exchange(table)

    def drop_side(self, table: TableName, token_name: str) -> None:  # noqa: ARG002
        raise AssertionError(f"a proof rebuilds nothing, and was about to drop {table}")


@dataclass(frozen=True)
class CopiedTable(_ReadsThrough):
    """The scratch copy of the task's table. The clone carries the tokens of the user's project, which the copy's own
    project would take for another owner's: the task would be refused its own table."""

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        return replace(self.inner.published(table, token_names), owners=Ownership())

    def prepare(self, table: TableName, *given: Any) -> PreparedTable:
        return self.inner.prepare(table, *given)

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


@dataclass(frozen=True)
class PinnedTable(_ReadsThrough):
    """A table of the user's, read at one version in every scratch copy. What would write it is refused."""

    pins: dict[TableName, int]

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        found = self.inner.published(table, token_names)
        if found.version is None:
            return found
        return replace(found, version=self.pins.setdefault(table, found.version))

    def read(self, table: TableName, at: int | Staged | None = None) -> Any:
        return self.inner.read(table, self.pins.get(table) if at is None else at)

    def prepare(self, table: TableName, *_: Any) -> PreparedTable:
        raise _users_own(table)

    def stage(self, table: TableName, *_: Any, **__: Any) -> Staged:
        raise _users_own(table)

    def duplicates(self, staged: Staged, *_: Any) -> int | None:
        raise _users_own(staged.table)

    def commit(self, staged: Staged, *_: Any) -> Landed | Lost:
        raise _users_own(staged.table)

    def discard(self, table: TableName, *_: Any) -> int:
        raise _users_own(table)

    def forget(self, table: TableName, *_: Any) -> int:
        raise _users_own(table)


def _users_own(table: TableName) -> AssertionError:
    return AssertionError(f"a proof was about to write {table}, which is the user's")
