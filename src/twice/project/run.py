"""Runs of an opened project: which slices, run, restate, retry, and what a run would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone

from twice.core.ports import Frame
from twice.core.project.selector import choose
from twice.core.results.run import RunRequest, RunResult
from twice.core.scope import slice_named
from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UsageError
from twice.project.ledger import tables_to_ask
from twice.runtime.result.compute import result_frame
from twice.runtime.result.pins import Pins
from twice.runtime.run import run_many
from twice.runtime.run.chain import EVERY_TASK, Report, Selection, TaskEnd, quiet
from twice.runtime.run.explain import Explanation, TaskPlan, explain_all, explain_run
from twice.runtime.run.quick import all_would_stay, already_published, chain_already_published, would_stay
from twice.runtime.run.run_many import retry_failed, retry_slices, run_slices
from twice.runtime.run.run_task import refuse_kind
from twice.runtime.staleness.stale import failed_labels
from twice.wiring.open_project import OpenProject


def slices(
    opened: OpenProject, task: str, date: str | None, interval: tuple[datetime, datetime] | None = None
) -> tuple[Slice, ...]:
    """What the caller asked for, checked before any session is started."""
    scope = opened.project.task(task).scope
    if interval is None:
        return (slice_named(scope, date),)
    if not isinstance(scope, TimeScope):
        raise UsageError("this task's work is not cut by time; it has no interval", where=task, fix="Leave it out.")
    return tuple(scope.between(*interval))


def moment(value: str | date) -> datetime:
    """One end of an interval; without a time zone it is in UTC."""
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = datetime.combine(value, time())
    else:
        try:
            found = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise UsageError(
                f"{value!r} is not a date or time", fix="Write 2026-06-09 or 2026-06-09T00:00:00+00:00."
            ) from None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def run(opened: OpenProject, task: str, slices: tuple[Slice, ...], request: RunRequest) -> tuple[RunResult, ...]:
    """Each slice in a run of its own, see `run_slices`."""
    declared = opened.project.task(task)
    refuse_kind(declared, request.kind)  # before a session is started for nothing
    with opened.quickly() as quick:
        found = None if quick is None else already_published(quick, declared, slices, request)
    return found if found is not None else run_slices(opened.context, declared, slices, request)


def chosen(opened: OpenProject, selectors: Sequence[str], parallel: int = 1) -> Selection:
    """The tasks that these selectors choose, all where there are none; so many of them at once."""
    return Selection(choose(opened.project, selectors) if selectors else None, parallel)


def run_all(
    opened: OpenProject, date: str | None, wait: timedelta | None, report: Report = quiet, which: Selection = EVERY_TASK
) -> tuple[TaskEnd, ...]:
    """The chosen tasks of a date, each after those it reads from."""
    run_many.of_date(opened.project, date, which.tasks)  # before a session is started for nothing
    with opened.quickly() as quick:
        ends = None if quick is None else chain_already_published(quick, date, which)
    if ends is None:
        return run_many.run_all(opened.context, date, wait, report, which)
    for end in ends:
        report(end)
    return ends


def retry(
    opened: OpenProject, tasks: Sequence[str], date: str | None, wait: timedelta | None, report: Report = quiet
) -> tuple[TaskEnd, ...]:
    """One slice of one task, or all failed ones of the tasks that these selectors choose (none: of every task), in the
    order of their inputs."""
    if date is not None:
        task = opened.project.task(tasks[0])
        slice_ = slice_named(task.scope, date)
        end = TaskEnd(task.name, retry_slices(opened.context, task, (slice_,), wait))
        report(end)
        return (end,)
    names = [task.name for task in choose(opened.project, tasks)] if tasks else list(opened.project.tasks)
    if not any(failed_labels(opened.ledger, name) for name in names) and not tables_to_ask(opened):
        return ()  # no session is started for nothing
    return retry_failed(opened.context, names, wait, report)


def plan(opened: OpenProject, task: str, date: str | None) -> tuple[Explanation, ...]:
    """What a run would do with each slice it looks at, and why, oldest first. Writes to no table."""
    declared = opened.project.task(task)
    slice_ = slice_named(declared.scope, date)  # before a session is started for nothing
    with opened.quickly() as quick:
        found = None if quick is None else would_stay(quick, declared, slice_)
    return found if found is not None else explain_run(opened.context, declared, slice_)


def plan_all(
    opened: OpenProject, date: str | None, report: Callable[[TaskPlan], None], which: Selection = EVERY_TASK
) -> tuple[TaskPlan, ...]:
    """What the runs of the chosen tasks of a date would do, in the order of the graph. Writes to no table."""
    run_many.of_date(opened.project, date, which.tasks)  # before a session is started for nothing
    with opened.quickly() as quick:
        plans = None if quick is None else all_would_stay(quick, date, which.tasks)
    if plans is None:
        return explain_all(opened.context, date, report, which.tasks)
    for plan_ in plans:
        report(plan_)
    return plans


def preview(opened: OpenProject, task: Task, date: str | None) -> Frame:
    """The result frame of one slice, published nowhere."""
    slice_ = slice_named(task.scope, date)
    return result_frame(opened.context, task, (slice_,), Pins(opened.context, opened.context.engine.fresh()))
