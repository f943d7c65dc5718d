"""What is known of an opened project: its ledger and its declarations are read. No Spark is started but for `look`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from twice.core.backfill.plan import PlannedSlice
from twice.core.failure.interruption import interruption
from twice.core.failure.root_cause import in_one_line
from twice.core.ledger.look import Look, SeenSlice
from twice.core.ledger.record import RunRecord
from twice.core.ports import NeedsEngine, RunLedger
from twice.core.project.graph import TaskNode
from twice.core.project.graph import graph as graph_of
from twice.core.results.calendar import Page
from twice.core.results.calendar import calendar as calendar_of
from twice.core.results.status import History
from twice.core.scope import slice_named, slices_named
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.errors import UsageError
from twice.runtime.context import RunContext
from twice.runtime.staleness.kept import not_right
from twice.runtime.staleness.known_statuses import known_statuses
from twice.runtime.staleness.look_at import look_at
from twice.runtime.staleness.read_once import reading_once
from twice.runtime.staleness.slice_status import slice_statuses
from twice.runtime.staleness.stale import Stale
from twice.runtime.table.settle import attempts_not_reporting
from twice.wiring.open_project import OpenProject


def history(opened: OpenProject, task: str, date: str | None, limit: int) -> History:
    """The attempts at a task's slices, or at one of them, newest first."""
    name = opened.task_name(task)
    label = slice_named(opened.project.task(name).scope, date).label if date is not None else None
    return History(opened.ledger.attempts(name, label, limit))


def look(opened: OpenProject, task: str | None) -> dict[str, str]:
    """Look again at what a task, or every one, has published, and keep what is found until the next look. Starts
    Spark where logs and ledger do not tell it all, and reads only. Which tasks could not be looked at, and why: the
    look before stays. Dying in here has kept the looks at the tasks before."""
    failed: dict[str, str] = {}
    tasks = chosen(opened, task)
    for at, one in enumerate(tasks, 1):
        if isinstance(one.scope, Since):
            continue  # it goes on from its mark; what was changed behind that is in the ledger
        opened.progress.counts(at, len(tasks), "task")
        try:
            opened.ledger.record_look(_looked(opened, one))
        except Exception as error:
            if interruption(error) is not None:
                raise
            failed[one.name] = in_one_line(error)
    return failed


def _looked(opened: OpenProject, task: Task) -> Look:
    """Only the slices of which logs and ledger do not tell it are asked for with an engine."""
    known: dict[Slice, PlannedSlice] = {}
    with opened.quickly() as quick:
        if quick is not None:
            with suppress(NeedsEngine):
                return look_at(quick, task, partial(_all_known, quick, task, known))
    context = opened.context
    session = context.engine.fresh()
    return look_at(context, task, lambda slices: slice_statuses(context, task, slices, session, known))


def _all_known(
    quick: RunContext, task: Task, known: dict[Slice, PlannedSlice], slices: Sequence[Slice]
) -> list[PlannedSlice]:
    """Raises NeedsEngine where one of them is not; `known` then has the others."""
    known.update(known_statuses(quick, task, slices))
    if len(known) < len(slices):
        raise NeedsEngine(task.name)
    return [known[slice_] for slice_ in slices]


def stale(opened: OpenProject, task: str | None, ledger: RunLedger | None = None) -> tuple[Stale, ...]:
    """What is stale, and why: as the ledger knows, and as the last look found. `ledger`: if it was read already."""
    looks: Mapping[str, Look] = opened.ledger.looks()
    ledger = ledger or reading_once(opened.ledger)
    return tuple(each for one in chosen(opened, task) for each in _stale(opened, ledger, one, looks.get(one.name)))


def _stale(opened: OpenProject, ledger: RunLedger, task: Task, looked: Look | None) -> tuple[Stale, ...]:
    """Where both know a slice, the ledger's reason is the one of now."""
    found = {each.slice: each for each in not_right(opened.project, ledger, task, opened.code_of(task))}
    if looked is not None and looked.seen:
        for each in still_true(opened, task, looked, ledger.runs(task.name)):
            for slice_ in slices_named(task.scope, [each.label] if each.status == "stale" else []):
                found.setdefault(slice_, Stale(task.name, slice_, each.why))
    return tuple(found[slice_] for slice_ in sorted(found))


def still_true(
    opened: OpenProject, task: Task, looked: Look | None, runs: Sequence[RunRecord]
) -> tuple[SeenSlice, ...]:
    """What the last look found, of slices that nobody has tried since. Of other code it says nothing: what is stale by
    the code of now is in the ledger."""
    if looked is None or looked.code != opened.code_hash(task):
        return ()
    published = {run.label: run for run in runs if run.generation}
    return tuple(each for each in looked.seen if each.label in published and each.is_about(published[each.label]))


def calendar(opened: OpenProject, task: str) -> tuple[Page, ...]:
    """The slices of a task by month (or day), with the state of each."""
    declared = opened.project.task(task)
    if not isinstance(declared.scope, TimeScope):
        raise UsageError("this task's work is not cut by time; it has no calendar", where=task, fix="Leave it out.")
    found = {each.slice.label for each in stale(opened, declared.name)}
    not_reporting = attempts_not_reporting(opened.ledger, declared.name)
    return calendar_of(declared.scope, opened.ledger.runs(declared.name), found, not_reporting)


def graph(opened: OpenProject) -> tuple[TaskNode, ...]:
    """Which task reads from which, in the order of `run_all`."""
    return graph_of(opened.project)


def chosen(opened: OpenProject, task: str | None) -> tuple[Task, ...]:
    return opened.project.in_order() if task is None else (opened.project.task(task),)
