"""Backfills of an opened project. What only reads or writes the ledger starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from twice.core.backfill.plan import BackfillPlan, BackfillRequest
from twice.core.backfill.result import BackfillRecord, BackfillResult, BackfillState, report
from twice.core.ports import NeedsEngine
from twice.core.project.selector import choose
from twice.core.time_scope import TimeScope
from twice.errors import TwiceError
from twice.runtime.backfill import backfill as backfills
from twice.runtime.backfill import several, worker
from twice.runtime.backfill.several import Make, Range, Requests
from twice.runtime.backfill.worker import Report, Stop
from twice.runtime.holder import is_gone
from twice.runtime.staleness.known_statuses import known_statuses
from twice.wiring.open_project import OpenProject


def plan(opened: OpenProject, request: BackfillRequest, name: str | None) -> BackfillPlan:
    """What `start` would store."""
    _check(opened, request)
    return _planned(opened, request, name)


def requests_of(opened: OpenProject, selectors: Sequence[str], between: Range, make: Make) -> Requests:
    """One for each of the tasks that these selectors choose, of every task if there are none."""
    tasks = choose(opened.project, selectors) if selectors else opened.project.in_order()
    return several.requests_of(opened.ledger, tasks, between, make)


def ends_of(opened: OpenProject, task: str, between: Range) -> tuple[str, str]:
    """The first and the last slice of one task, as they were given, or of all that is on record."""
    if between.first is not None and between.last is not None:
        return between.first, between.last
    declared = opened.project.task(task)
    if not isinstance(declared.scope, TimeScope):
        return "", ""  # refused with everything else that a request can be refused for
    return several.whole_range(opened.ledger, declared, declared.scope)


def start_if_any(opened: OpenProject, request: BackfillRequest) -> tuple[BackfillRecord, BackfillPlan | None] | None:
    """As `start`, unless there is nothing to do: then nothing is stored, and the answer is None."""
    return backfills.start_if_any(opened.ledger, request, partial(_to_store, opened, request))


def start(
    opened: OpenProject, request: BackfillRequest, name: str | None
) -> tuple[BackfillRecord, BackfillPlan | None]:
    """The plan is given only where it is new: a second start resumes."""
    _check(opened, request)
    return backfills.start(opened.ledger, request, partial(_to_store, opened, request, name), name)


def ready(opened: OpenProject, name: str) -> None:
    """Start what work on a backfill needs. A session that starts takes Ctrl-C for itself: set your own handler after
    this."""
    if record(opened, name).total:
        assert opened.context is not None


def work(opened: OpenProject, name: str, report: Report, stop: Stop, parallel: int) -> BackfillRecord:
    """Take batches until none is left, or `stop` is set. Without a batch no session is started."""
    ended = backfills.ended_at_once(opened.ledger, name)
    return ended if ended is not None else worker.work(opened.context, name, report, stop, parallel)


def records(opened: OpenProject) -> tuple[BackfillRecord, ...]:
    return opened.ledger.backfills.records()


def running(opened: OpenProject) -> tuple[BackfillRecord, ...]:
    """Those a worker may find something to do in."""
    return tuple(record for record in records(opened) if record.state is BackfillState.RUNNING and record.open)


def record(opened: OpenProject, name: str) -> BackfillRecord:
    return backfills.find(opened.ledger, name)


def show(opened: OpenProject, name: str) -> BackfillResult:
    """As it is now, slice by slice."""
    return report(record(opened, name), opened.ledger.backfills.batches(name))


def holders(opened: OpenProject, name: str) -> tuple[str, ...]:
    """The workers that have a batch of it now, without those that are seen to be gone."""
    found = {hold.holder for hold in opened.ledger.backfills.held(name)}
    return tuple(sorted(holder for holder in found if not is_gone(holder)))


def progress(opened: OpenProject, name: str) -> tuple[BackfillRecord, int]:
    """As it is now, and how many workers have a batch of it: a process with `--parallel 4` is four of them."""
    held = [hold for hold in opened.ledger.backfills.held(name) if not is_gone(hold.holder)]
    return record(opened, name), len(held)


def pause(opened: OpenProject, name: str) -> BackfillRecord:
    return backfills.pause(opened.ledger, name)


def resume(opened: OpenProject, name: str) -> BackfillRecord:
    return backfills.resume(opened.ledger, name)


def cancel(opened: OpenProject, name: str) -> BackfillRecord:
    return backfills.cancel(opened.ledger, name)


def _to_store(opened: OpenProject, request: BackfillRequest, name: str | None = None) -> BackfillPlan:
    """Where no session can be started for the work of a plan, none is stored."""
    found = _planned(opened, request, name)
    if found.batches:
        assert opened.context is not None
    return found


def _planned(opened: OpenProject, request: BackfillRequest, name: str | None = None) -> BackfillPlan:
    """Only the slices of which logs and ledger do not tell the status are asked for with an engine."""
    task = opened.project.task(request.task)
    slices = backfills.asked_for(task, request)
    with opened.quickly() as quick:
        known = {} if quick is None else known_statuses(quick, task, slices)
        if quick is not None and len(known) == len(slices) and not request.downstream:
            with suppress(NeedsEngine, OSError, TwiceError):
                return backfills.plan_backfill(quick, request, name, known)
    return backfills.plan_backfill(opened.context, request, name, known)


def _check(opened: OpenProject, request: BackfillRequest) -> None:
    """Before a session is started for nothing."""
    backfills.asked_for(opened.project.task(request.task), request)
