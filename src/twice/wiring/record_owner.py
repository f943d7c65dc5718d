"""The owner of a project's records: from its settings to the environment that its ledger is opened for."""

from __future__ import annotations

from twice.config import Settings
from twice.core.project import Project
from twice.core.record_owner import RecordOwner, TaskTable
from twice.core.task import Task
from twice.wiring.targets import Targets


def record_owner_of(settings: Settings, project: Project) -> RecordOwner:
    """With a name of the user's, one environment for all tables; without one, each table belongs to the location
    of its table system (`Settings.warehouse_name`)."""
    targets = Targets(settings)
    tables = {name: _table(settings, project, targets, task) for name, task in project.tasks.items()}
    systems = {task.target.format or project.format for task in project.tasks.values()}
    retired = {
        old: settings.environment or found.here for found in map(targets.location, systems) for old in found.formerly
    }
    return RecordOwner(settings.project, settings.environment or settings.warehouse_name, tables, retired)


def _table(settings: Settings, project: Project, targets: Targets, task: Task) -> TaskTable:
    system = task.target.format or project.format
    table = f"{system}:{task.target.name}"
    names = tuple(dict.fromkeys((*task.formerly, task.name))) if task.formerly else ()
    found = targets.location(system)
    if settings.environment is None:
        return TaskTable(found.here, table, found.known_as, found.formerly, names)
    before = tuple(dict.fromkeys((found.here, found.known_as, *found.formerly)))
    return TaskTable(settings.environment, table, formerly=before, names=names)
