"""What crashes leave behind, the marks of incremental tasks, and the owners of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twice.core.ledger.record import AttemptRecord
from twice.core.results.recover import RecoverResult
from twice.core.scope import slice_named
from twice.core.task import TableName, Task
from twice.errors import UsageError
from twice.project.rebuild import clear_records
from twice.runtime.holder import clear_scratch
from twice.runtime.staleness.stale import Stale
from twice.runtime.table.garbage import RemovedFiles, collect_garbage
from twice.runtime.upkeep import adopt as adoption
from twice.runtime.upkeep import examine as examination
from twice.runtime.upkeep import mark as marks
from twice.runtime.upkeep import recover as recovery
from twice.runtime.upkeep import takeover
from twice.runtime.upkeep.accept import accept as accept_kept
from twice.runtime.upkeep.accept import refuse_computed
from twice.runtime.upkeep.adopt import Adoption, AdoptRequest
from twice.runtime.upkeep.examine import Found
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.left_copies import LeftCopy, collect_copies
from twice.runtime.upkeep.mark import Mark
from twice.wiring.open_project import OpenProject


def recover(opened: OpenProject) -> RecoverResult:
    """Settle attempts that did not report back. It never runs a task."""
    result = recovery.recover(opened.context, opened.context.engine.fresh())
    return replace(result, open=len(open_attempts(opened)))


def open_attempts(opened: OpenProject) -> tuple[AttemptRecord, ...]:
    """Also those on tables that tasks wrote before they were given another one."""
    before = (a for task, _, there in opened.ledger.left_open() for a in there.open_attempts(task))
    return (*opened.ledger.open_attempts(), *before)


def gc(opened: OpenProject) -> tuple[RemovedFiles, ...]:
    """Delete what dead attempts staged, and the scratch files of killed processes."""
    opened.progress.begins("deleting scratch files", opened.settings.project)
    for folder in filter(None, (opened.settings.root / ".twice", opened.settings.spark.warm)):
        clear_scratch(folder / "scratch")
    return collect_garbage(opened.context, opened.context.engine.fresh())


def left_copies(opened: OpenProject) -> tuple[LeftCopy, ...]:
    """The tables that dead rebuilds and adoptions have left beside those of tasks: dropped where nobody can go on with
    them, and the records of rebuilds that have no such table any more."""
    found = collect_copies(opened.context, opened.context.engine.fresh())
    clear_records(opened, {each.task for each in found if each.kept})
    return found


def mark(opened: OpenProject, task: str) -> Mark:
    """How far an incremental task has read."""
    declared = opened.project.task(task)
    marks.incremental(declared)  # before a session is started for nothing
    return marks.show_mark(opened.context, declared)


def check_reset(opened: OpenProject, task: str, to: str | None) -> None:
    """Raises UsageError where a reset makes no sense, before a session is started for nothing."""
    marks.aim_of(opened.project.task(task), to)


def reset_mark(opened: OpenProject, task: str, to: str | None, by: str, reason: str) -> tuple[Mark, Mark]:
    """The mark before and after. `to`: left out, the task's initial one."""
    return marks.reset_mark(opened.context, opened.project.task(task), marks.Reset(to, by, reason))


def other_owners(opened: OpenProject, task: str) -> Mapping[str, int]:
    """The other tasks that own slices in this task's table, and how many."""
    declared = opened.project.task(task)
    return takeover.other_owners_of(opened.context, declared)


def take_over(opened: OpenProject, task: str, by: str, reason: str) -> Mapping[str, int]:
    """Give the table to this task; from whom, and how many slices."""
    return takeover.take_over(opened.context, opened.project.task(task), HumanDecision(by, reason))


def declared_for(opened: OpenProject, table: str, task: str) -> Task:
    """The task, which must write this table."""
    declared = opened.project.task(task)
    located = opened.project.located
    if located(TableName.parse(table)) != located(declared.target):
        raise UsageError(
            f"{task} writes {declared.target}, not {table}",
            where=task,
            fix=f'Declare it with that target first: @task("{table}", …).',
        )
    return declared


def examine(opened: OpenProject, task: Task, published: str | None) -> Found:
    """What a table that was made elsewhere is like for a task. Changes nothing."""
    examination.slices_of(task, published)  # before a session is started for nothing
    return examination.examine(opened.context, task, published)


def adopt(opened: OpenProject, task: Task, request: AdoptRequest) -> Adoption:
    """Take a table that was made elsewhere, and declare slices of it published."""
    examination.slices_of(task, request.published)  # before a session is started for nothing
    return adoption.adopt(opened.context, task, request)


def accept(opened: OpenProject, task: str, date: str | None, by: str, reason: str) -> tuple[Stale, ...]:
    """What was accepted as it is, of what a task keeps although its inputs were published again."""
    declared = opened.project.task(task)
    wanted = slice_named(declared.scope, date) if date is not None else None
    refuse_computed(declared)  # before a session is started for nothing
    return accept_kept(opened.context, declared, wanted, HumanDecision(by, reason))
