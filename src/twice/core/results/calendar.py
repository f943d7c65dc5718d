"""The state of each of a task's slices: counted, and as a calendar (months of days, days of hours). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from twice.core.ledger.record import RunRecord
from twice.core.scope import Every, Scope, slices_named
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
        cell = cell_of(known.get(slice_.label), not_reporting)
        cells.append("stale" if cell == "published" and slice_.label in stale else cell)
    return tuple(Page(title, tuple(cells)) for title, cells in pages.items())


def _position(label: str) -> tuple[str, int | None]:
    """Which line a slice is on, and where: days stand below days of the same number."""
    day, hour, _ = label.partition("T")
    if hour:
        return day, None
    title, _, number = label.rpartition("-")
    return title, int(number) - 1


def cell_of(run: RunRecord | None, not_reporting: Collection[str]) -> Cell:
    """The state of a slice that there is, by the ledger's record of it; whether it is stale is in no such record."""
    if run is None:
        return "missing"
    if run.quarantined is not None:
        return "quarantined"
    if run.failed:
        return "failed"
    if run.last_state is not None and run.last_state.open and run.last_attempt not in not_reporting:
        return "at work"
    return "published" if run.generation else "missing"


@dataclass(frozen=True)
class SliceStates:
    """A task's slices by state, in order. `published` counts also those that failed when they were last tried; `silent`
    are those whose last attempt has not ended and is not running either."""

    newest: str | None
    published: int
    missing: tuple[str, ...]
    failed: tuple[str, ...]
    running: tuple[str, ...]
    silent: tuple[str, ...]


def slice_states(
    scope: Scope | None, runs: Collection[RunRecord], not_reporting: Collection[str] = (), until: str | None = None
) -> SliceStates:
    """From the scope's start to the newest slice that is published, or to `until` if that is later: no clock is asked.
    What is published of slices that the scope has no more does not count; without a scope everything does."""
    known = {run.label: run for run in runs}
    newest = newest_published(scope, runs)
    labels: Collection[str] = known
    if isinstance(scope, TimeScope):
        last = max(filter(None, (newest, until)), default=None)
        labels = [] if last is None else list(scope.labels_through(last))
    cells = {label: cell_of(run, not_reporting) for label, run in known.items()}
    there = {label for label, run in known.items() if run.generation}
    return SliceStates(
        newest,
        sum(label in there for label in labels),
        tuple(label for label in labels if cells.get(label, "missing") == "missing"),
        tuple(label for label, cell in sorted(cells.items()) if cell in ("failed", "quarantined")),
        tuple(label for label, cell in sorted(cells.items()) if cell == "at work"),
        tuple(label for label, run in sorted(known.items()) if run.last_attempt in not_reporting),
    )


def newest_published(scope: Scope | None, runs: Iterable[RunRecord]) -> str | None:
    """The label of the newest slice that is published, of those that the scope has."""
    newest_first = sorted((run.label for run in runs if run.generation), reverse=True)
    return next((label for label in newest_first if scope is None or slices_named(scope, [label])), None)


def scope_word(scope: Scope) -> str:
    """How a scope cuts, in a word or two."""
    return f"every {scope.minutes} min" if isinstance(scope, Every) else type(scope).__name__.lower()
