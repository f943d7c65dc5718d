"""What is known of an opened project: its ledger and its declarations are read, and no Spark is started."""

from __future__ import annotations

from collections.abc import Sequence

from twice.core.ledger.record import RunRecord
from twice.core.project.graph import TaskNode
from twice.core.project.graph import graph as graph_of
from twice.core.results.calendar import Page
from twice.core.results.calendar import calendar as calendar_of
from twice.core.results.proof import ProofRecord
from twice.core.results.status import History, Status
from twice.core.scope import slice_named
from twice.core.since import CursorValue, Since, mark_text
from twice.core.table.mark import kind_of, mark_of
from twice.core.time_scope import TimeScope
from twice.errors import DeclarationError, UsageError
from twice.project import effects as outbox
from twice.project import ledger
from twice.runtime.staleness.kept import not_right
from twice.runtime.staleness.stale import Stale
from twice.runtime.table.settle import attempts_not_reporting
from twice.runtime.table.stored_mark import stored_mark
from twice.wiring.open_project import OpenProject

_ALL = 1_000_000_000


def status(opened: OpenProject, task: str | None, limit: int | None) -> Status:
    """The last attempt at each slice and what else is known, of one task or of all. `limit`: so many slices at most."""
    name = opened.project.task(task).name if task else None
    found = opened.ledger.overview(name, limit or _ALL)
    not_reporting = attempts_not_reporting(opened.ledger, name)
    old = stale(opened, name) if found.runs else ()
    return Status(
        found.runs,
        found.total,
        found.failed,
        found.last_failed,
        stale={(each.task, each.slice.label): each.why for each in old},
        marks=marks(opened, found.runs),
        effects=outbox.counts(opened, name),
        proofs=tuple(each for proved, each in proofs(opened).items() if name is None or proved == name),
        tables_to_ask=ledger.tables_to_ask(opened),
        silent=frozenset((run.task, run.label) for run in found.runs if run.last_attempt in not_reporting),
        kept={(each.task, each.slice.label): each.way_out for each in old if each.way_out is not None},
    )


def history(opened: OpenProject, task: str, date: str | None, limit: int) -> History:
    """The attempts at a task's slices, or at one of them, newest first."""
    declared = opened.project.task(task)
    label = slice_named(declared.scope, date).label if date is not None else None
    return History(opened.ledger.attempts(declared.name, label, limit))


def stale(opened: OpenProject, task: str | None) -> tuple[Stale, ...]:
    """What the ledger knows to be stale, and why."""
    chosen = opened.project.in_order() if task is None else (opened.project.task(task),)
    return tuple(
        each for one in chosen for each in not_right(opened.project, opened.ledger, one, opened.code_hash(one))
    )


def calendar(opened: OpenProject, task: str) -> tuple[Page, ...]:
    """The slices of a task by month (or day), with the state of each."""
    declared = opened.project.task(task)
    if not isinstance(declared.scope, TimeScope):
        raise UsageError("this task's work is not cut by time; it has no calendar", where=task, fix="Leave it out.")
    found = {each.slice.label for each in stale(opened, declared.name)}
    not_reporting = attempts_not_reporting(opened.ledger, declared.name)
    return calendar_of(declared.scope, opened.ledger.runs(declared.name), found, not_reporting)


def marks(opened: OpenProject, runs: Sequence[RunRecord]) -> dict[tuple[str, str], str]:
    """The mark of each run of an incremental task, by task and label: its generation is the number of a mark, which
    says by itself what it counts, also where its task is not declared any more or is declared otherwise."""
    found = {}
    for run in runs:
        mark = mark_of(run.generation) if kind_of(run.generation) is not None else _counted(opened, run)
        if mark is not None:
            found[run.task, run.label] = mark_text(mark)
    return found


def _counted(opened: OpenProject, run: RunRecord) -> CursorValue | None:
    """The mark of a number that counts from the `initial` of its time; None where it is not a mark, or not known."""
    declared = opened.project.tasks.get(run.task)
    if declared is None or not isinstance(declared.scope, Since):
        return None
    try:
        return stored_mark(opened.ledger, declared, declared.scope, run.generation)
    except DeclarationError:
        return None  # the error of its next run gives the reason


def proofs(opened: OpenProject) -> dict[str, tuple[ProofRecord, bool]]:
    """The last proof of each task of the project, and whether it is of the task's code as it is now."""
    tasks = opened.project.tasks
    found = opened.ledger.proofs()
    return {
        name: (found[name], found[name].code_hash == opened.code_hash(tasks[name])) for name in tasks if name in found
    }


def graph(opened: OpenProject) -> tuple[TaskNode, ...]:
    """Which task reads from which, in the order of `run_all`."""
    return graph_of(opened.project)
