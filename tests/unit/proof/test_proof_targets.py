from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from twice.core.ports import Published
from twice.core.task import TableName
from twice.proof.tasks.proof_targets import CopiedTable, PinnedTable

ORDERS = TableName.parse("shop.orders")
WRITING = ("prepare", "stage", "discard", "forget")


class _Calls:
    """In place of a target: keeps which of its methods were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self.called.append(name)


@pytest.mark.parametrize("method", WRITING)
def test_a_table_of_the_users_is_never_written(method: str) -> None:
    inner = _Calls()
    with pytest.raises(AssertionError, match=r"a proof was about to write shop.orders, which is the user's"):
        getattr(PinnedTable(inner, {}), method)(ORDERS)
    assert inner.called == []


@pytest.mark.parametrize("method", WRITING)
def test_the_copy_is_written_like_any_table(method: str) -> None:
    inner = _Calls()
    getattr(CopiedTable(inner), method)(ORDERS)
    assert inner.called == [method]


@dataclass
class _AtVersion:
    version: int | None

    def published(self, table: TableName, token_names: Sequence[str]) -> Published:
        return Published(self.version, {})


def test_a_table_of_the_users_keeps_the_version_at_which_it_was_first_seen() -> None:
    pins: dict[TableName, int] = {}
    inner = _AtVersion(None)
    table = PinnedTable(inner, pins)  # type: ignore[arg-type]
    versions = []
    for inner.version in (None, 3, 4):
        versions.append(table.published(ORDERS, ()).version)
    assert versions == [None, 3, 3]
    assert pins == {ORDERS: 3}
