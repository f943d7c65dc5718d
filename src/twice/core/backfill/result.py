"""What becomes of a backfill: its batches in the hands of workers, how each slice ended, and the report of it all."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from twice.core.backfill.plan import BackfillPlan, BackfillRequest, PlannedSlice, SliceStatus
from twice.core.closed import assert_never
from twice.core.results.summary import Summarized, Table, counted, run_label
from twice.core.table.token import Kind


class BackfillState(str, Enum):
    """`PLANNED`: of a dry run; it is neither stored nor started."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FINISHED = "finished"

    @property
    def over(self) -> bool:
        match self:
            case BackfillState.PLANNED | BackfillState.RUNNING | BackfillState.PAUSED:
                return False
            case BackfillState.CANCELLED | BackfillState.FINISHED:
                return True
            case _:
                assert_never(self)


class BatchState(str, Enum):
    """How far a batch of a backfill came, or how it ended."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # a batch it needs failed

    @property
    def open(self) -> bool:
        """Is it still to do, or being done?"""
        match self:
            case BatchState.PENDING | BatchState.CLAIMED:
                return True
            case BatchState.DONE | BatchState.FAILED | BatchState.SKIPPED:
                return False
            case _:
                assert_never(self)


@dataclass(frozen=True)
class Comparison:
    """What a restated slice holds now, compared with what it held. `sums` are those of the numeric columns that
    differ."""

    identical: bool
    rows_before: int | None
    rows: int
    sums: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.identical:
            return "IDENTICAL"
        rows = f"{self.rows - self.rows_before:+,} rows" if self.rows_before is not None else counted(self.rows, "row")
        return ", ".join([f"CHANGED: {rows}", *(f"{name} {old} -> {new}" for name, (old, new) in self.sums.items())])


@dataclass(frozen=True)
class SliceEnd:
    """How one slice of a batch ended well."""

    label: str
    outcome: str
    rows: int | None = None
    fingerprint: str | None = None
    comparison: Comparison | None = None


@dataclass(frozen=True)
class BatchClaim:
    """A batch in one worker's hands. `tries` distinguishes a slow worker from the one that followed. `after_fence`:
    attempts with a higher fence began after its first claim, whoever made it."""

    backfill: str
    number: int
    tries: int
    task: str
    slices: tuple[PlannedSlice, ...]
    kind: Kind
    silent: bool
    after_fence: int = 0

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(slice_.label for slice_ in self.slices)


@dataclass(frozen=True)
class Hold:
    """A batch in a worker's hands, as others see it."""

    number: int
    tries: int
    holder: str


@dataclass(frozen=True)
class BatchRecord:
    """A batch as the ledger knows it. `ends` has the slices that ended well."""

    number: int
    task: str
    state: BatchState
    slices: tuple[PlannedSlice, ...]
    ends: tuple[SliceEnd, ...] = ()
    needs: tuple[int, ...] = ()
    holder: str | None = None
    until: datetime | None = None
    tries: int = 0
    error: Mapping[str, str] | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class BackfillRecord:
    name: str
    request: BackfillRequest
    state: BackfillState
    created: datetime
    slices: Mapping[BatchState, int]
    rows: int = 0
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.slices.values())

    @property
    def done(self) -> int:
        return self.slices.get(BatchState.DONE, 0)

    @property
    def failed(self) -> int:
        return self.slices.get(BatchState.FAILED, 0) + self.slices.get(BatchState.SKIPPED, 0)

    @property
    def open(self) -> int:
        return sum(count for state, count in self.slices.items() if state.open)

    @property
    def complete(self) -> bool:
        return self.done == self.total


@dataclass(frozen=True)
class SliceReport:
    """One slice of a backfill: why it is in it, and what became of it. `generation` is what the table held when the
    plan was made."""

    task: str
    label: str
    status: SliceStatus
    why: str
    generation: int
    state: BatchState
    outcome: str | None = None
    rows: int | None = None
    comparison: Comparison | None = None
    error: Mapping[str, str] | None = None

    @property
    def standing(self) -> SliceStatus:
        """Deprecated: `status` is its name now."""
        warnings.warn("SliceReport.standing is now SliceReport.status", DeprecationWarning, stacklevel=2)
        return self.status


@dataclass(frozen=True, repr=False)
class BackfillResult(Summarized):
    """A backfill as it is now, or the plan of a dry run (`state` is `PLANNED`). `left_out`, the slices that were not
    asked for, is known only of a plan."""

    name: str
    request: BackfillRequest
    state: BackfillState
    slices: tuple[SliceReport, ...]
    notes: tuple[str, ...] = ()
    left_out: Mapping[SliceStatus, int] = field(default_factory=dict)

    @property
    def done(self) -> tuple[SliceReport, ...]:
        return tuple(slice_ for slice_ in self.slices if slice_.state is BatchState.DONE)

    @property
    def failed(self) -> tuple[SliceReport, ...]:
        """What failed, and what was skipped because of it."""
        return tuple(s for s in self.slices if s.state in (BatchState.FAILED, BatchState.SKIPPED))

    @property
    def complete(self) -> bool:
        return len(self.done) == len(self.slices)

    @property
    def restated(self) -> int:
        """How many published slices are computed again on purpose."""
        return sum(slice_.generation > 0 for slice_ in self.slices) if self.request.restate else 0

    def __str__(self) -> str:
        ends = [self.request.first, *([self.request.last] if self.request.last != self.request.first else [])]
        included = ", both included" if len(ends) > 1 else ""
        return f"{self.name}: {run_label(self.request.task, ends)}{included}: {self._progress}"

    @property
    def _progress(self) -> str:
        slices = counted(len(self.slices), "slice")
        if self.state is BackfillState.PLANNED:
            return f"plan only, not started, {slices} to do"
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        return f"{self.state.value}, {len(self.done):,} of {slices} done{failed}"

    def as_table(self) -> Table:
        head = ("slice", "planned because", "state", "outcome", "rows", "error")
        return head, [
            (
                f"{each.task}[{each.label}]",
                each.why,
                each.state.value,
                str(each.comparison) if each.comparison else each.outcome,
                each.rows,
                (each.error or {}).get("what"),
            )
            for each in self.slices
        ]


def report(record: BackfillRecord, batches: Iterable[BatchRecord]) -> BackfillResult:
    """What the ledger knows of a backfill, slice by slice."""
    slices = []
    for batch in batches:
        ends = {end.label: end for end in batch.ends}
        for slice_ in batch.slices:
            end = ends.get(slice_.label, SliceEnd(slice_.label, ""))
            slices.append(
                SliceReport(
                    batch.task,
                    slice_.label,
                    slice_.status,
                    slice_.why,
                    slice_.generation,
                    batch.state,
                    end.outcome or None,
                    end.rows,
                    end.comparison,
                    batch.error,
                )
            )
    return BackfillResult(record.name, record.request, record.state, tuple(slices), record.notes)


def as_result(plan: BackfillPlan) -> BackfillResult:
    """A plan that is not begun yet."""
    slices = tuple(SliceReport(t, s.label, s.status, s.why, s.generation, BatchState.PENDING) for t, s in plan.slices)
    return BackfillResult(plan.name, plan.request, BackfillState.PLANNED, slices, plan.notes, plan.left_out)
