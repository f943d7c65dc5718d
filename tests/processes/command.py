"""How a process of this folder is started: as a module and from the root, so that it imports by whole names."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(name: str, *arguments: Path | str) -> list[str]:
    """To be run with `cwd=ROOT`."""
    return [sys.executable, "-m", f"tests.processes.{name}", *map(str, arguments)]
