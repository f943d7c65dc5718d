"""Projects for the proofs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.processes.worker_process import PATIENCE

from twice.config import load
from twice.wiring.open_project import OpenProject

from .project_files import put_orders, write_project


def until(happened: Callable[[], Any], what: str) -> None:
    """Wait, bounded, for something another process does."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.05)


@pytest.fixture
def project(tmp_path: Path, spark: Any) -> Path:
    """A project with forty days of orders."""
    root = tmp_path / "shop"
    write_project(root)
    put_orders(spark, root, 40)
    return root


@pytest.fixture
def opened(project: Path) -> Iterator[OpenProject]:
    opened = OpenProject(load(project, None))
    yield opened
    opened.close()
