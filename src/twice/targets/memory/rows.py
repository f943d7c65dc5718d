"""Frames where there is no Spark: rows as tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twice.core.ports import Column


@dataclass(frozen=True)
class Rows:
    """A tiny frame: columns with Spark's type names, and tuples."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...] = ()

    def values(self, name: str) -> tuple[Any, ...]:
        at = self._index(name)
        return tuple(row[at] for row in self.rows)

    def select(self, names: Sequence[str]) -> Rows:
        """These columns, in this order, by name (case does not count)."""
        order = [self._index(name) for name in names]
        return Rows(tuple(self.columns[at] for at in order), tuple(tuple(row[at] for at in order) for row in self.rows))

    def where(self, name: str, low: Any, high: Any) -> Rows:
        """The rows with `low <= name < high`; NULL is never inside."""
        at = self._index(name)
        return Rows(self.columns, tuple(row for row in self.rows if row[at] is not None and low <= row[at] < high))

    def _index(self, name: str) -> int:
        return [column.name.lower() for column in self.columns].index(name.lower())
