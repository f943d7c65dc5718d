"""A backfill: many slices made right by one frozen plan. Pure: what is planned, and how it is cut into batches.

A plan is made once and stored. A batch is what one worker claims: one slice, or several that follow each other and
are computed and published together. A batch may need others: a month is made after its days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

from twice.core.hints import hint, option
from twice.core.slice import Slice
from twice.core.table.token import Kind
from twice.errors import UsageError

SliceStatus = Literal["missing", "failed", "stale", "published", "downstream"]
"""What a backfill finds of a slice when it is planned. `downstream`: a slice of another task that reads a slice of the
plan (`with_downstream`)."""

StatusChoice = Literal["missing", "failed", "stale", "published"]
"""The slice statuses that `only` accepts: those a slice of the task itself can have."""

CHOICES: tuple[StatusChoice, ...] = ("missing", "failed", "stale", "published")
DEFAULT: tuple[StatusChoice, ...] = ("missing", "failed")

BatchSize = int | Literal["auto", "off"]
"""How many slices are computed and published together: as many as suit their rows, so many, or one (`off`)."""

ROWS_PER_BATCH = 2_000_000
"""What `auto` aims at: enough to make one Spark job worth its start, little enough to do again after a crash."""
LARGEST_BATCH = 400
"""Beyond a year of days the tokens of one commit, not the rows, become the load."""


@dataclass(frozen=True)
class BackfillRequest:
    """What a person asked for. Two requests are the same backfill if they are equal."""

    task: str
    first: str
    last: str
    only: tuple[StatusChoice, ...] = DEFAULT
    reverse: bool = False
    batch: BatchSize = "auto"
    restate: bool = False
    silent: bool = True
    downstream: bool = False

    @property
    def default_name(self) -> str:
        parts = [self.task, self.first, self.last]
        parts += ["-".join(self.only)] if self.only != DEFAULT else []
        parts += [option for option, chosen in (("restate", self.restate), ("downstream", self.downstream)) if chosen]
        return "_".join(parts)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> BackfillRequest:
        return cls(**{**data, "only": tuple(data["only"])})


@dataclass(frozen=True)
class PlannedSlice:
    """`generation` is what the table held when the plan was made: once it has moved on, the slice was made since."""

    label: str
    status: SliceStatus
    why: str
    generation: int = 0


@dataclass(frozen=True)
class PlannedBatch:
    number: int
    task: str
    slices: tuple[PlannedSlice, ...]
    kind: Kind = "run"
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class BackfillPlan:
    """`left_out` counts the slices of the range that the request does not ask for, by status."""

    name: str
    request: BackfillRequest
    batches: tuple[PlannedBatch, ...]
    left_out: Mapping[SliceStatus, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def slices(self) -> tuple[tuple[str, PlannedSlice], ...]:
        """Every slice with its task, in the order they are taken."""
        return tuple((batch.task, slice_) for batch in self.batches for slice_ in batch.slices)


def parse_only(text: str) -> tuple[StatusChoice, ...]:
    """`missing,failed`, in the order of the choices, each once."""
    statuses = tuple(status.strip() for status in text.split(","))
    unknown = [status for status in statuses if status not in CHOICES]
    if unknown:
        raise UsageError(
            hint("{}: {} cannot be chosen", option("only", statuses), repr(unknown[0])),
            fix=f"Choose from: {', '.join(CHOICES)}.",
        )
    return tuple(choice for choice in CHOICES if choice in statuses)


def parse_batch(text: str) -> BatchSize:
    if text in ("auto", "off"):
        return cast(BatchSize, text)
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    given = int(text) if text.isdecimal() else text
    raise UsageError(
        hint("{} is not a valid number of slices", option("batch", given)), fix="Give a number, auto or off."
    )


def batch_size(asked: BatchSize, rows_per_slice: float | None) -> int:
    """How many slices one batch takes. Without any knowledge of their rows, a month of days."""
    if asked == "off":
        return 1
    if asked != "auto":
        return asked
    if rows_per_slice is None:
        return 30
    return max(1, min(LARGEST_BATCH, int(ROWS_PER_BATCH / max(rows_per_slice, 1.0))))


def neighbours(slices: Iterable[Slice], most: int) -> list[tuple[Slice, ...]]:
    """Groups of at most so many slices that follow each other without a gap, oldest first.

    A batch is computed over one range of its inputs: a slice that is not asked for must not lie inside.
    """
    groups: list[list[Slice]] = []
    for slice_ in sorted(slices):
        if groups and len(groups[-1]) < most and groups[-1][-1].end == slice_.start:
            groups[-1].append(slice_)
        else:
            groups.append([slice_])
    return [tuple(group) for group in groups]


def halves(slices: Sequence[PlannedSlice]) -> tuple[tuple[PlannedSlice, ...], ...]:
    """A failed batch, cut in two: after a few rounds the bad slice stands alone."""
    middle = (len(slices) + 1) // 2
    return tuple(part for part in (tuple(slices[:middle]), tuple(slices[middle:])) if part)
