"""The project that is measured: in a folder of its own, with its tables under `warehouse/shop`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twice.config import load
from twice.wiring.open_project import OpenProject


@dataclass(frozen=True)
class MeasuredProject:
    root: Path
    opened: OpenProject

    @property
    def spark(self) -> Any:
        return self.opened.spark

    def table(self, name: str) -> str:
        return str(self.root / "warehouse" / "shop" / name)


@contextmanager
def measured_project(pipeline: str) -> Iterator[MeasuredProject]:
    """Opened, with these tasks; closed and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="twice-bench-") as folder:
        root = Path(folder)
        (root / "pipelines").mkdir()
        (root / "twice.toml").write_text('project = "bench"\n')
        (root / "pipelines" / "jobs.py").write_text(pipeline)
        opened = OpenProject(load(root, None))
        try:
            yield MeasuredProject(root, opened)
        finally:
            opened.close()
