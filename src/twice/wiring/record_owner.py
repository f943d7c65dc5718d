"""Whose records in the ledger are a project's?"""

from __future__ import annotations

from collections.abc import Iterable

from twice.config import Settings
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.task import Task
from twice.errors import DeclarationError
from twice.wiring.targets import Targets
from twice.wiring.written_tasks import WrittenTask


def record_owner_of(settings: Settings, declared: Iterable[Task | WrittenTask]) -> RecordOwner:
    """With a name of the user's, one environment for all tables; without one, each table belongs to the location
    of its table system (`Settings.warehouse_name`)."""
    targets = Targets(settings)
    tasks = tuple(declared)
    tables = {task.name: _table(settings, targets, task) for task in tasks}
    systems = {task.target.format or settings.format for task in tasks}
    retired = {
        old: settings.environment or found.here for found in map(targets.location, systems) for old in found.formerly
    }
    return RecordOwner(settings.project, settings.environment or settings.warehouse_name, tables, retired)


def _table(settings: Settings, targets: Targets, task: Task | WrittenTask) -> TaskTable:
    system = task.target.format or settings.format
    table = f"{system}:{task.target.name}"
    names = tuple(dict.fromkeys((*task.formerly, task.name))) if task.formerly else ()
    try:
        found = targets.location(system)
    except DeclarationError as error:
        error.what += f"; {task.name} writes {task.target}, and its records in the ledger are kept by that server"
        raise
    if settings.environment is None:
        return TaskTable(found.here, table, found.known_as, found.formerly, names)
    before = tuple(dict.fromkeys((found.here, found.known_as, *found.formerly)))
    return TaskTable(settings.environment, table, formerly=before, names=names)
