"""Whose records a project's are: from its settings to the environment that its ledger is opened for."""

from __future__ import annotations

from twice.config import Settings
from twice.core.home import Home, Place
from twice.core.project import Project
from twice.core.task import TableName
from twice.wiring.targets import Targets


def home_of(settings: Settings, project: Project) -> Home:
    """With a name of the user's, one environment for all tables; without one, each table belongs to the place where
    its table system lies (`Settings.warehouse_name`)."""
    targets = Targets(settings)
    places = {name: _place(settings, project, targets, task.target) for name, task in project.tasks.items()}
    return Home(settings.project, settings.environment or settings.warehouse_name, places)


def _place(settings: Settings, project: Project, targets: Targets, target: TableName) -> Place:
    system = target.format or project.format
    table = f"{system}:{target.name}"
    found = targets.location(system)
    if settings.environment is None:
        return Place(found.here, table, found.known_as)
    return Place(settings.environment, table, formerly=tuple(dict.fromkeys((found.here, found.known_as))))
