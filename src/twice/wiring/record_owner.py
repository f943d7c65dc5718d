"""The owner of a project's records: from its settings to the environment that its ledger is opened for."""

from __future__ import annotations

from twice.config import Settings
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.project.project import Project
from twice.core.task import Task
from twice.wiring.targets import Targets


def record_owner_of(settings: Settings, project: Project) -> RecordOwner:
    """With a name of the user's, one environment for all tables; without one, each table belongs to the location
    of its table system (`Settings.warehouse_name`)."""
    targets = Targets(settings)
    tables = {name: _table(settings, project, targets, task) for name, task in project.tasks.items()}
    return RecordOwner(settings.project, settings.environment or settings.warehouse_name, tables)


def _table(settings: Settings, project: Project, targets: Targets, task: Task) -> TaskTable:
    system = task.target.format or project.format
    table = f"{system}:{task.target.name}"
    names = tuple(dict.fromkeys((*task.formerly, task.name))) if task.formerly else ()
    found = targets.location(system)
    if settings.environment is None:
        return TaskTable(found.here, table, found.known_as, names=names)
    before = tuple(dict.fromkeys((found.here, found.known_as)))
    return TaskTable(settings.environment, table, formerly=before, names=names)
