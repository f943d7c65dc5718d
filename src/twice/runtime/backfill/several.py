"""A backfill of several tasks: one request for each of them, in the order of the graph. Each has a plan of its own,
which is made when its turn comes: what a task above publishes again is stale below by then, and every slice is computed
once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from twice.core.backfill.plan import BackfillRequest, StatusChoice
from twice.core.hints import hint, option
from twice.core.ports import RunRecords
from twice.core.scope import slices_named
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import BeforeStart, UsageError
from twice.runtime.backfill.backfill import asked_for

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

Make = Callable[[str, str, str], BackfillRequest]
"""The request for a task, from its first to its last slice."""


@dataclass(frozen=True)
class Range:
    """From one day to another, both included; without them each task from its start to the newest slice on record."""

    first: str | None = None
    last: str | None = None

    def check(self, only: Sequence[StatusChoice]) -> None:
        """What was never published has no newest slice: somebody must say how far it goes."""
        if (self.first is None) != (self.last is None):
            raise UsageError(
                hint("{} and {} go together", option("from", self.first or "…"), option("to", self.last or "…")),
                fix="Both ends are included.",
            )
        if self.first is None and not {"stale", "failed"}.issuperset(only):
            raise UsageError(
                hint("a backfill needs {} and {}", option("from", "2026-01-01"), option("to", "2026-12-31")),
                fix=hint("Without them, ask for slices that are on record: {}.", option("only", ("failed", "stale"))),
            )


@dataclass(frozen=True)
class Requests:
    """One for each task, in the order of the graph; and the tasks that have none, with the reason."""

    each: tuple[BackfillRequest, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def requests_of(ledger: RunRecords, tasks: Sequence[Task], range_: Range, make: Make) -> Requests:
    """Raises UsageError where the request makes no sense for a task, or for none of them."""
    each: list[BackfillRequest] = []
    left_out: dict[str, str] = {}
    for task in tasks:
        if not isinstance(task.scope, TimeScope):
            left_out[task.name] = f"its work is not cut by time; twice run {task.name} makes it right"
            continue
        try:
            first, last = _ends(ledger, task, task.scope, range_)
        except BeforeStart as error:
            left_out[task.name] = error.what
            continue
        request = make(task.name, first, last)
        if request.restate and not task.write.restatable:
            left_out[task.name] = f"what {task.write.name}() wrote cannot be computed again"
            continue
        asked_for(task, request)
        each.append(request)
    if not each:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items()) or "there are none"
        raise UsageError(
            f"none of these tasks can be backfilled ({why})", fix="Choose a task whose work is cut by time."
        )
    return Requests(tuple(each), left_out)


def whole_range(ledger: RunRecords, task: Task, scope: TimeScope) -> tuple[str, str]:
    """From the task's start to its newest slice on record, published or failed; without any, its first slice alone."""
    known = slices_named(task.scope, [run.label for run in ledger.runs(task.name)])
    return scope.first.label, max(known, default=scope.first).label


def _ends(ledger: RunRecords, task: Task, scope: TimeScope, range_: Range) -> tuple[str, str]:
    """The slices of this task that the two days lie in, or that they are made of; its own first one if it begins
    later. Raises BeforeStart if that is after the last day."""
    if range_.first is None or range_.last is None:
        return whole_range(ledger, task, scope)
    last = scope.covering(_day(range_.last))[-1]
    try:
        first = scope.covering(_day(range_.first))[0]
    except BeforeStart:
        first = scope.first
    return first.label, last.label


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise UsageError(
            f"{text!r} is not a day", fix="For several tasks, give days: each task takes the slices that they lie in."
        ) from None
