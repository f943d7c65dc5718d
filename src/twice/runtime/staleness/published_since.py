"""Was a slice made since somebody decided to make it? One decision moves a slice by one generation.

The decision is older than the look of the attempt that carries it out. A backfill's plan was frozen days ago: a slice
that has moved on since is not moved a second time, whoever moved it, unless other code did. A slice below waits for
what it reads: it was made since if an attempt published it that began after its batch was first claimed: all it reads
was made by then. One that began before may have read the rows of before, and publish them later. A retry follows an
attempt of the same run, whose reply may have been lost: if that one landed, there is nothing left to do. What others
publish in its pause is no answer: they may have read their inputs before this run was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from twice.core.ports import RunLedger
from twice.core.table.mark import version_text
from twice.core.table.token import Intention, Kind
from twice.runtime.staleness.decide import SliceState


class GenerationsAtStart:
    """The generations that a decision was made on: those of a plan, else those that the run's first look finds. All
    attempts of one run share it."""

    def __init__(self, planned: Mapping[str, int] | None = None) -> None:
        self._generations = dict(planned or {})
        self._planned = frozenset(self._generations)
        self._attempts: list[str] = []

    @property
    def planned(self) -> Mapping[str, int]:
        """By label: what the plan has seen of its slices."""
        return {label: self._generations[label] for label in self._planned}

    def begins(self, attempt: str) -> None:
        """One more attempt of the run."""
        self._attempts.append(attempt)

    def moved(self, found: Mapping[str, int], landed: Callable[[str], bool]) -> tuple[str, ...]:
        """The slices that were published since: those of a plan by anybody, others by an attempt of this run that has
        `landed`. What is found for the first time is kept."""
        later = [
            label for label, generation in found.items() if generation > self._generations.setdefault(label, generation)
        ]
        if self._planned.issuperset(later) or any(landed(attempt) for attempt in self._attempts):
            return tuple(later)
        return tuple(label for label in later if label in self._planned)


def published_after(ledger: RunLedger, task: str, labels: Iterable[str], fence: int) -> tuple[str, ...]:
    """The slices whose publisher began after the attempt with this fence. What only the table knows of is not shown to
    have begun then; nor is what an attempt at another table made (`publishers` would name it)."""
    runs = ledger.runs_of(task, tuple(labels)).values()
    makers = {run.label: ledger.attempt(run.attempt, task) for run in runs if run.generation and run.attempt}
    return tuple(label for label, maker in makers.items() if maker is not None and maker.fence > fence)


def published_since(kind: Kind, moved: Sequence[str], states: Sequence[SliceState]) -> str | None:
    """Why there is nothing left to do, although the slices cannot be shown to be right; None if there is.

    One moved slice is enough to stop a restatement: the others are left to whoever asked for them together. One that
    other code moved is not made: the restatement was asked for to replace just that. A plain run goes on wherever it
    can be *shown* that other code or other inputs were published. What others may have overwritten is not made, whoever
    moved it.
    """
    if any(state.overwritten for state in states):
        return None
    made = [state for state in states if state.label in moved and made_by(state.present.code, state.published)]
    if not made or (kind == "run" and (len(made) < len(states) or any(map(_read_others, made)))):
        return None
    at = ", ".join(f"{state.label} was published ({version_text(state.generation)})" for state in made)
    return f"nothing done: {at} after this run was planned"


def made_by(code: str, published: Intention | None) -> bool:
    """Whether this code made what is published. What is not on record may be any code's."""
    return published is not None and published.code == code


def _read_others(state: SliceState) -> bool:
    """Whether it is shown that other inputs were read."""
    return state.present.inputs is not None and state.published != state.present
