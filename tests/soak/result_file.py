"""The result file of a long proof: which source it was, what was counted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def of_this_source() -> dict[str, Any]:
    """The commit, and whether the files are as it has them."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "clean": not _git("status", "--porcelain", "--untracked-files=no"),
    }


def keep(name: str, result: Mapping[str, Any]) -> None:
    """Written to docs/proof, over that of an earlier proof, and shown."""
    text = json.dumps(result, indent=2)
    file = ROOT / "docs" / "proof" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")
    print(text)


def kept(name: str) -> dict[str, Any]:
    """The result as it was kept last."""
    result: dict[str, Any] = json.loads((ROOT / "docs" / "proof" / name).read_text())
    return result


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
