"""What crashes leave behind, the marks of incremental tasks, and the owners of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twice.core.ledger.record import AttemptRecord
from twice.core.results.recover import RecoverResult
from twice.core.scope import slice_named
from twice.runtime.holder import clear_scratch
from twice.runtime.staleness.stale import Stale
from twice.runtime.table.garbage import RemovedFiles, collect_garbage
from twice.runtime.upkeep import mark as marks
from twice.runtime.upkeep import recover as recovery
from twice.runtime.upkeep import takeover
from twice.runtime.upkeep.accept import Acceptance
from twice.runtime.upkeep.accept import accept as accept_kept
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
    clear_scratch(opened.settings.root / ".twice" / "scratch")
    return collect_garbage(opened.context, opened.context.engine.fresh())


def mark(opened: OpenProject, task: str) -> Mark:
    """How far an incremental task has read."""
    declared = opened.project.task(task)
    marks.incremental(declared)  # before a session is started for nothing
    return marks.show_mark(opened.context, declared)


def reset_mark(opened: OpenProject, task: str, to: str | None, by: str, reason: str) -> tuple[Mark, Mark]:
    """The mark before and after. `to`: left out, the task's initial one."""
    return marks.reset_mark(opened.context, opened.project.task(task), marks.Reset(to, by, reason))


def other_owners(opened: OpenProject, task: str) -> Mapping[str, int]:
    """The other tasks that own slices in this task's table, and how many."""
    return takeover.other_owners_of(opened.context, opened.project.task(task))


def take_over(opened: OpenProject, task: str, by: str, reason: str) -> Mapping[str, int]:
    """Give the table to this task; from whom, and how many slices."""
    return takeover.take_over(opened.context, opened.project.task(task), takeover.Takeover(by, reason))


def accept(opened: OpenProject, task: str, date: str | None, by: str, reason: str) -> tuple[Stale, ...]:
    """What was accepted as it is, of what a task keeps although its inputs were published again."""
    declared = opened.project.task(task)
    wanted = slice_named(declared.scope, date) if date is not None else None
    return accept_kept(opened.context, declared, wanted, Acceptance(by, reason))
