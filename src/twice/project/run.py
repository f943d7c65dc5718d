"""Runs of an opened project: which slices, run, restate, retry, and what a run would do."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone

from twice.core.ports import Frame
from twice.core.results.run import RunRequest, RunResult
from twice.core.scope import slice_named
from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UsageError
from twice.runtime.result.compute import Pins, result_frame
from twice.runtime.run import run_many
from twice.runtime.run.explain import Explanation, explain_run
from twice.runtime.run.run_many import Report, TaskEnd, quiet, retry_failed, retry_slices, run_slices
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
    return run_slices(opened.context, opened.project.task(task), slices, request)


def run_all(
    opened: OpenProject, date: str | None, wait: timedelta | None, report: Report = quiet
) -> tuple[TaskEnd, ...]:
    """Every task of a date, each after the tasks it reads from."""
    return run_many.run_all(opened.context, date, wait, report)


def retry(
    opened: OpenProject, task: str | None, date: str | None, wait: timedelta | None, report: Report = quiet
) -> tuple[TaskEnd, ...]:
    """One slice, or all failed ones of one task or of every task, in the order of their inputs."""
    if task is not None and date is not None:
        chosen = opened.project.task(task)
        slice_ = slice_named(chosen.scope, date)
        end = TaskEnd(chosen.name, retry_slices(opened.context, chosen, (slice_,), wait))
        report(end)
        return (end,)
    names = opened.project.tasks if task is None else [opened.project.task(task).name]
    return retry_failed(opened.context, names, wait, report)


def plan(opened: OpenProject, task: str, date: str | None) -> tuple[Explanation, ...]:
    """What a run would do with each slice it looks at, and why, oldest first. Writes to no table."""
    declared = opened.project.task(task)
    return explain_run(opened.context, declared, slice_named(declared.scope, date))


def preview(opened: OpenProject, task: Task, date: str | None) -> Frame:
    """The result frame of one slice, published nowhere."""
    slice_ = slice_named(task.scope, date)
    return result_frame(opened.context, task, (slice_,), Pins(opened.context, opened.context.engine.fresh()))
