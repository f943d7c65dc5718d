"""What all unit tests share, so that `make check` stays short."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from twice.ledgers.database import connect


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays until the end: the garbage collector need not walk through it again and
    again. Nor through what a test has just made, of which nearly all goes by itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def statements_are_compiled_once() -> Iterator[None]:
    """SQLAlchemy keeps a compiled statement per engine and dialect, and each test opens a ledger of its own: a quarter
    of the time of these tests went into compiling the same statements again. Here all SQLite engines of a process
    share one dialect and one cache; connections, pools and files stay each engine's own."""
    first = create_engine("sqlite://")
    with first.connect():  # a dialect learns what its database can do from the first connection
        pass
    first.dispose()
    compiled: dict[Any, Any] = {}

    def create(*arguments: Any, **options: Any) -> Engine:
        made = create_engine(*arguments, **options)
        if made.dialect.name == "sqlite":
            made.dialect = first.dialect
            made.update_execution_options(compiled_cache=compiled)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connect, "create_engine", create)
        yield
