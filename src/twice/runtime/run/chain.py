"""Several tasks in one call, each after those of them that it reads from: how each of them ended. One after another
here, several at once in `chain_in_threads`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from twice.core.project.project import Project
from twice.core.results.run import RunResult
from twice.core.task import Task
from twice.errors import Interrupted, TwiceError
from twice.runtime.staleness.stale import Stale


@dataclass(frozen=True)
class TaskEnd:
    """How one task of a chain ended: its results, with its error if a slice failed, or the failed task that it waits
    for, or why it has nothing to do with the chain's date. `stale`: slices of other dates that are not right, and were
    left."""

    task: str
    results: tuple[RunResult, ...] = ()
    error: TwiceError | None = None
    waits_for: str | None = None
    left_out: str | None = None
    stale: tuple[Stale, ...] = ()


@dataclass(frozen=True)
class Selection:
    """The tasks of a chain, None: every one of the project; and how many of them at once."""

    tasks: tuple[Task, ...] | None = None
    parallel: int = 1


EVERY_TASK = Selection()

Run = Callable[[Task], tuple[RunResult, ...]]

Report = Callable[[TaskEnd], None]
"""Hears of each task as soon as it ended: whatever ends the chain later, what was done is known."""


def quiet(_: TaskEnd) -> None:
    """All is reported at the end."""


def run_in_order(
    project: Project, run: Run, report: Report = quiet, chosen: Sequence[Task] | None = None
) -> tuple[TaskEnd, ...]:
    """Every chosen task after those it reads from. A failure stops only what depends on it."""
    ends: dict[str, TaskEnd] = {}
    for name, above in waits_of(project, chosen).items():
        task, broken = project.tasks[name], stopped_by(above, ends)
        ends[task.name] = TaskEnd(task.name, waits_for=broken) if broken else end_of(task, run, report)
        report(ends[task.name])
    return tuple(ends.values())


def waits_of(project: Project, chosen: Sequence[Task] | None = None) -> dict[str, tuple[str, ...]]:
    """For each chosen task, in the order of the graph, the chosen ones that it reads from. What is read and was not
    chosen is there as it is."""
    names = {task.name for task in (project.tasks.values() if chosen is None else chosen)}
    return {
        task.name: tuple(up.name for up in project.upstream(task) if up.name in names)
        for task in project.in_order()
        if task.name in names
    }


def stopped_by(above: Sequence[str], ends: Mapping[str, TaskEnd]) -> str | None:
    """The first of these that did not succeed, so that what reads from it is not run."""
    return next((name for name in above if ends[name].error or ends[name].waits_for), None)


def end_of(task: Task, run: Run, report: Report) -> TaskEnd:
    try:
        return TaskEnd(task.name, run(task))
    except TwiceError as error:
        return TaskEnd(task.name, error.results, error=error.at(task.name))
    except Interrupted as interrupt:
        if interrupt.error.results:
            report(TaskEnd(task.name, interrupt.error.results))
        raise
