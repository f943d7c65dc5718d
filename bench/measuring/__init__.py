"""Measuring as ratios: ours and the other, interleaved, in one process, by medians."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """`allowance` are seconds that ours may take on top of the ratio."""

    name: str
    ours_s: float
    other_s: float
    goal: float
    allowance: float = 0.0

    @property
    def ratio(self) -> float:
        return self.ours_s / self.other_s

    @property
    def reached(self) -> bool:
        return self.ours_s <= self.other_s * self.goal + self.allowance

    def as_data(self) -> dict[str, object]:
        return {**asdict(self), "ratio": round(self.ratio, 3), "met": self.reached}


def interleaved(
    ours: Callable[[int], object],
    other: Callable[[int], object],
    rounds: int,
    before: Callable[[int], object] | None = None,
) -> tuple[float, float]:
    """Medians of `rounds` measurements each, one after the other, after one unmeasured round of both. `before` makes
    each round ready for both, unmeasured."""
    took: tuple[list[float], list[float]] = ([], [])
    for index in range(rounds + 1):
        if before is not None:
            before(index)
        for side, act in enumerate((ours, other)):
            started = time.perf_counter()
            act(index)
            if index:
                took[side].append(time.perf_counter() - started)
    return statistics.median(took[0]), statistics.median(took[1])


def report(rows: list[Row], json_file: Path | None) -> None:
    print(f"{'measurement':58} {'ours':>8} {'other':>8} {'ratio':>6} {'goal':>6}  met")
    for row in rows:
        goal = f"{row.goal:.2f}" + (f"+{row.allowance:.1f}s" if row.allowance else "")
        reached = "yes" if row.reached else "NO"
        print(f"{row.name:58} {row.ours_s:7.2f}s {row.other_s:7.2f}s {row.ratio:6.2f} {goal:>6}  {reached}")
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps([row.as_data() for row in rows], indent=2) + "\n")


def arguments(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--rounds", type=int, default=5, help="measured repetitions of each side")
    return parser
