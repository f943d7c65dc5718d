"""What a run is and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum

from twice.core.audit import AuditResult
from twice.core.ledger.outbox import EffectState
from twice.core.results.summary import Summarized, SummarizedSequence, Table, counted, counted_each, run_label
from twice.core.table.mark import version_cell
from twice.core.table.token import Kind
from twice.core.write import Changes


@dataclass(frozen=True)
class RunRequest:
    """How slices are to be run. `wait`: for how long to wait for another attempt on them; None: not at all. `silent`:
    its effects are not prepared. `planned`: the generations at which somebody decided on this run: a slice that is
    further by now was made in the meantime. `after_fence`: so was one that an attempt with a higher fence published.
    `at_least`: by label, the generation to publish is not below this one."""

    kind: Kind = "run"
    wait: timedelta | None = None
    silent: bool = False
    planned: Mapping[str, int] | None = None
    after_fence: int | None = None
    at_least: Mapping[str, int] = field(default_factory=dict)


PLAIN_RUN = RunRequest()


class Outcome(str, Enum):
    """How a run ended well. Failures are errors, see errors.py."""

    PUBLISHED = "published"
    ALREADY = "already published"
    IDENTICAL = "identical"  # restated: the new rows are the old rows
    CHANGED = "changed"  # restated: they are not
    NOTHING_NEW = "nothing new"  # an incremental task: its source has not moved beyond the mark
    UNKNOWN = "published (provenance unknown)"


@dataclass(frozen=True)
class SliceResult:
    """`changed`: whether a restatement has put other rows in the place of those that were there; None where it is not
    known, and for every other run."""

    label: str
    generation: int
    rows: int | None = None
    fingerprint: str | None = None
    changed: bool | None = None


@dataclass(frozen=True)
class EffectEnd:
    """The state of an effect of a slice after a run. `already`: it was prepared by an earlier publish."""

    label: str
    name: str
    id: int
    state: EffectState
    why: str | None
    already: bool


@dataclass(frozen=True, repr=False)
class RunResult(Summarized):
    """One run's end. `why` says why it was computed, or why not; `notes` what a person should know.
    `mark` is where an incremental task is now; `more`: its source goes further, another run will take it.
    `earlier`: the runs that one call made before this one, oldest first."""

    task: str
    outcome: Outcome
    slices: tuple[SliceResult, ...]
    attempt: str
    why: str
    version: int | None = None
    audits: tuple[AuditResult, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    changes: Changes | None = None
    mark: str | None = None
    more: bool = False
    effects: tuple[EffectEnd, ...] = ()
    earlier: tuple[RunResult, ...] = ()

    @property
    def rows(self) -> int | None:
        """Of all its slices; None where it is not known."""
        known = [slice_.rows for slice_ in self.slices if slice_.rows is not None]
        return sum(known) if known else None

    def __str__(self) -> str:
        parts = [self.outcome.value]
        parts += [f"mark {self.mark}"] if self.mark else []
        parts += [counted(self.rows, "row")] if self.rows is not None else []
        parts += [f"version {self.version}"] if self.version is not None else []
        runs = (*self.earlier, self)
        several = f"{_outcomes(runs)}; the last: " if self.earlier else ""
        return f"{run_label(self.task, _labels(runs))}: {several}{', '.join(parts)}"

    def as_table(self) -> Table:
        return _table((*self.earlier, self))


@dataclass(frozen=True, repr=False, eq=False)
class RetryResult(SummarizedSequence[RunResult]):
    """What was tried again: a sequence of its runs, in the order they were made. Empty, and falsy, if nothing had
    failed. `left_out`: the tasks of which only slices failed that their scope has no more, and which these are."""

    runs: tuple[RunResult, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def _items(self) -> tuple[RunResult, ...]:
        return self.runs

    def __str__(self) -> str:
        left = [f"left out: {', '.join(self.left_out)}"] if self.left_out else []
        if not self.runs:
            return "; ".join(left) or "nothing has failed"
        tasks = dict.fromkeys(run.task for run in self.runs)
        where = ", ".join(run_label(task, _labels([run for run in self.runs if run.task == task])) for task in tasks)
        return "; ".join([f"{_outcomes(self.runs)}: {where}", *left])

    def as_table(self) -> Table:
        return _table(self.runs)


@dataclass(frozen=True)
class StaleSlice:
    """A published slice that is not up to date any more, and why. `way_out`: what a person can do where no run
    computes it again by itself."""

    task: str
    label: str
    why: str
    way_out: str | None = None


@dataclass(frozen=True, repr=False, eq=False)
class RunAllResult(SummarizedSequence[RunResult]):
    """What was run for one date: a sequence of the runs, in the order they were made. `left_out`: the tasks that have
    nothing to do with that date, and why. `stale`: slices that are not up to date, and were left."""

    runs: tuple[RunResult, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    stale: tuple[StaleSlice, ...] = ()

    @property
    def _items(self) -> tuple[RunResult, ...]:
        return self.runs

    def __str__(self) -> str:
        parts = [f"{counted(len({run.task for run in self.runs}), 'task')} done in {_outcomes(self.runs)}"]
        parts += [f"left out: {', '.join(self.left_out)}"] if self.left_out else []
        parts += [f"stale: {', '.join(f'{each.task}[{each.label}]' for each in self.stale)}"] if self.stale else []
        return "; ".join(parts)

    def as_table(self) -> Table:
        return _table(self.runs)


def _labels(runs: Sequence[RunResult]) -> list[str]:
    """Of all of them, each once."""
    return list(dict.fromkeys(slice_.label for run in runs for slice_ in run.slices))


def _outcomes(runs: Sequence[RunResult]) -> str:
    return f"{counted(len(runs), 'run')}, {counted_each(run.outcome.value for run in runs)}"


def _table(runs: Sequence[RunResult]) -> Table:
    head = ("slice", "outcome", "generation", "rows", "version", "why")
    return head, [
        (
            f"{run.task}[{each.label}]",
            run.outcome.value,
            run.mark or version_cell(each.generation),
            each.rows,
            run.version,
            run.why,
        )
        for run in runs
        for each in run.slices
    ]


def last_of(results: Sequence[RunResult]) -> RunResult:
    """The last of several runs of one call, which knows those before it."""
    *earlier, last = results
    return replace(last, earlier=tuple(earlier))
