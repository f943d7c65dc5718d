"""A task's slices as a calendar: months of days, days of hours, years of months. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from twice.core.ledger.record import RunRecord
from twice.core.time_scope import TimeScope

Cell = Literal["published", "stale", "failed", "quarantined", "at work", "missing", "none"]
"""`none`: there is no such slice, as the 31st of June or a day before the first."""


@dataclass(frozen=True)
class Page:
    """One line: a month, a day or a year, and the state of each slice in it."""

    title: str
    cells: tuple[Cell, ...]


def calendar(
    scope: TimeScope, runs: Iterable[RunRecord], stale: Collection[str] = (), not_reporting: Collection[str] = ()
) -> tuple[Page, ...]:
    """From the first to the last slice that anything is known of. `stale`: the labels of those that are;
    `not_reporting`: the open attempts whose process is not running."""
    known = {run.label: run for run in runs}
    if not known:
        return ()
    slices = list(scope.through(scope.slice_of(min(known)), scope.slice_of(max(known))))
    pages: dict[str, list[Cell]] = {}
    for slice_ in slices:
        title, column = _position(slice_.label)
        cells = pages.setdefault(title, [])
        if column is not None:
            cells.extend(["none"] * (column - len(cells)))
        cell = _cell(known.get(slice_.label), not_reporting)
        cells.append("stale" if cell == "published" and slice_.label in stale else cell)
    return tuple(Page(title, tuple(cells)) for title, cells in pages.items())


def _position(label: str) -> tuple[str, int | None]:
    """Which line a slice is on, and where: days stand below days of the same number."""
    day, hour, _ = label.partition("T")
    if hour:
        return day, None
    title, _, number = label.rpartition("-")
    return title, int(number) - 1


def _cell(run: RunRecord | None, not_reporting: Collection[str]) -> Cell:
    if run is None:
        return "missing"
    if run.quarantined is not None:
        return "quarantined"
    if run.failed:
        return "failed"
    if run.last_state is not None and run.last_state.open and run.last_attempt not in not_reporting:
        return "at work"
    return "published" if run.generation else "missing"
