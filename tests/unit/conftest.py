"""What all unit tests share, so that `make check` stays short."""

from __future__ import annotations

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays until the end: the garbage collector need not walk through it again and
    again. Nor through what a test has just made, of which nearly all goes by itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
