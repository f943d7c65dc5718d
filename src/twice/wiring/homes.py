"""The owner of a project's records: from its settings to the environment that its ledger is opened for."""

from __future__ import annotations

import os
from urllib.parse import parse_qs, urlsplit

from twice.config import Settings
from twice.core.project import Project
from twice.core.record_owner import RecordOwner, TaskTable
from twice.core.task import TableName

DELTA = "delta"


def home_of(settings: Settings, project: Project) -> RecordOwner:
    """With a name of the user's, one environment for all tables; without one, each table belongs to the location
    of its table system (`Settings.warehouse_name`)."""
    tables = {name: _table(settings, project, task.target) for name, task in project.tasks.items()}
    return RecordOwner(settings.project, settings.environment or _warehouse(settings)[0], tables)


def _table(settings: Settings, project: Project, target: TableName) -> TaskTable:
    system = target.format or project.format
    table = f"{system}:{target.name}"
    here, known_as = _warehouse(settings) if system == DELTA else _server(settings, system)
    if settings.environment is None:
        return TaskTable(here, table, known_as)
    return TaskTable(settings.environment, table, formerly=tuple(dict.fromkeys((here, known_as))))


def _warehouse(settings: Settings) -> tuple[str, str]:
    """As this ledger calls it, and as anybody would."""
    return settings.warehouse_name, os.path.realpath(settings.warehouse)


def _server(settings: Settings, name: str) -> tuple[str, str]:
    """A server by its host, port and database: no user, no password."""
    if name not in settings.connections:
        return name, name  # whoever opens its tables is told that there is no such connection
    url = urlsplit(settings.connections[name].url.reveal())
    asked = parse_qs(url.query)
    hosts = ",".join(asked.get("host", [])) or url.netloc.rpartition("@")[2]
    port = next(iter(asked.get("port", [])), "")
    place = f"postgresql://{hosts}{f':{port}' if port else ''}/{url.path.lstrip('/')}"
    return place, place
