"""A long proof that can be stopped and started again: what it has counted so far lies in its folder.

On another machine, `--resume` goes on from the result file that was kept under docs/proof, with tables of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.soak.result_file import ROOT, keep, kept, of_this_source


class LongRun:
    """`state` holds what else the next call must know. The result names every commit that it was made of."""

    def __init__(self, folder: Path, file: str, seed: int, minutes: float, resume: bool) -> None:
        self.folder, self.file = folder, file
        self.until = time.monotonic() + 60 * minutes
        self._saved = time.monotonic()
        held = self._held(seed, resume)
        self.seed: int = held["seed"]
        self.minutes: float = held["minutes"]
        self.sources: list[dict[str, Any]] = held["sources"]
        self.counts: Counter[str] = Counter(held["counts"])
        self.violations: list[str] = held["violations"]
        self.state: dict[str, Any] = held["state"]
        if of_this_source() not in self.sources:
            self.sources.append(of_this_source())

    @classmethod
    def from_arguments(cls, parser: argparse.ArgumentParser, name: str) -> tuple[LongRun, argparse.Namespace]:
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--minutes", type=float, default=24 * 60, help="stop then; a later call goes on")
        parser.add_argument("--folder", type=Path, default=ROOT / ".soak" / name)
        parser.add_argument("--resume", action="store_true", help="go on from the result under docs/proof")
        options = parser.parse_args()
        return cls(options.folder, f"{name}.json", options.seed, options.minutes, options.resume), options

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def save(self) -> None:
        now = time.monotonic()
        self.minutes += (now - self._saved) / 60
        self._saved = now
        held = {**self._result(), "state": self.state, "minutes": self.minutes}
        self._file.write_text(json.dumps(held, indent=2))

    def end(self, what: str) -> int:
        """Write the result; the exit code."""
        self.save()
        keep(self.file, {"what": what, **self._result()})
        return 1 if self.violations else 0

    def _result(self) -> dict[str, Any]:
        return {
            "sources": self.sources,
            "seed": self.seed,
            "counts": dict(self.counts),
            "violations": self.violations,
            "minutes": round(self.minutes, 1),
        }

    @property
    def _file(self) -> Path:
        return self.folder / "state.json"

    def _held(self, seed: int, resume: bool) -> dict[str, Any]:
        if self._file.exists():
            held: dict[str, Any] = json.loads(self._file.read_text())
            return held
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if resume:
            return {**kept(self.file), "state": {}}
        return {"seed": seed, "minutes": 0.0, "sources": [], "counts": {}, "violations": [], "state": {}}
