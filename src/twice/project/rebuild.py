"""The table of a task of an opened project filled again beside itself, then exchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from twice.core.project.project import Project
from twice.core.task import Task
from twice.ledgers.ledger import Ledger
from twice.runtime.rebuild import rebuild as rebuilding
from twice.runtime.rebuild.fill import Report
from twice.runtime.rebuild.plan import Rebuild, RebuildRequest, check_request
from twice.runtime.rebuild.rebuild import RebuildResult
from twice.runtime.table.settle import attempts_not_reporting
from twice.wiring.open_project import OpenProject


def check(opened: OpenProject, task: str, request: RebuildRequest) -> Task:
    """The task. Raises UsageError for what cannot be asked of it, before a session is started for nothing."""
    declared = opened.project.task(task)
    check_request(declared, request)
    return declared


def describe(opened: OpenProject, task: str, request: RebuildRequest) -> str:
    """What `rebuild` would do, for a person who is asked. Changes nothing."""
    context = opened.context
    found = Rebuild(context, context, check(opened, task, request))
    context.progress.begins("looking what is to be done", task)
    return rebuilding.describe(*rebuilding.preview(found, request))


def rebuild(opened: OpenProject, task: str, request: RebuildRequest, report: Report) -> RebuildResult:
    """Fill, exchange, tidy up. Dying anywhere leaves the old table or the new one; a second call goes on."""
    declared = check(opened, task, request)
    with _aside(opened, declared) as found:
        result = rebuilding.rebuild_table(found, request, report)
    _forget(_records(opened, declared))
    return result


def abandon(opened: OpenProject, task: str) -> bool:
    """Drop the copy being built; whether there was anything. The table is not touched."""
    declared = opened.project.task(task)
    records = _records(opened, declared)
    context = opened.context
    return rebuilding.abandon(Rebuild(context, context, declared), lambda: _forget(records))


@contextmanager
def _aside(opened: OpenProject, task: Task) -> Iterator[Rebuild]:
    """With a ledger of its own in the project's folder: what is built there is nobody's record but the rebuild's. If
    it is lost, the side table itself says what it holds."""
    context, records = opened.context, _records(opened, task)
    records.parent.mkdir(parents=True, exist_ok=True)
    made = Rebuild(context, context, task)
    code = opened.code_hash(task)
    ledger = Ledger.open(f"sqlite:///{records}")
    try:
        project = Project(
            context.project.id, {**context.project.tasks, made.side_task.name: made.side_task}, context.project.format
        )
        yield replace(made, aside=replace(context, project=project, ledger=ledger, code_hash=lambda _: code))
    finally:
        ledger.close()


def _records(opened: OpenProject, task: Task) -> Path:
    return opened.settings.root / ".twice" / "rebuild" / f"{task.first_name}.db"


def clear_records(opened: OpenProject, kept: Collection[str]) -> int:
    """Delete the records of rebuilds that are over, but for these tasks; how many. Those of one that may be at work
    stay. Dying here leaves the rest to the next call."""
    names = {task.first_name: task for task in opened.project.tasks.values()}
    found = sorted((opened.settings.root / ".twice" / "rebuild").glob("*.db"))
    over = [each for each in found if each.stem in names and names[each.stem].name not in kept and not _at_work(each)]
    for records in over:
        _forget(records)
    return len(over)


def _at_work(records: Path) -> bool:
    ledger = Ledger.open(f"sqlite:///{records}")
    try:
        return bool({each.id for each in ledger.open_attempts()} - attempts_not_reporting(ledger, None))
    finally:
        ledger.close()


def _forget(records: Path) -> None:
    for name in (records.name, f"{records.name}-wal", f"{records.name}-shm"):
        records.with_name(name).unlink(missing_ok=True)
