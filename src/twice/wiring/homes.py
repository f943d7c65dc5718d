"""Whose records a project's are: from its settings to the environment that its ledger is opened for."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from twice.config import Settings
from twice.core.home import Home, Place
from twice.core.project import Project
from twice.core.task import TableName

DELTA = "delta"


def home_of(settings: Settings, project: Project) -> Home:
    """With a name of the user's, one environment for all tables; without one, each table belongs to the place where
    its table system lies. A place inside the project is told relative to it where the ledger is inside too: both move
    together, and their history with them."""
    places = {name: _place(settings, project, task.target) for name, task in project.tasks.items()}
    return Home(settings.project, settings.environment or _warehouse(settings)[0], places)


def _place(settings: Settings, project: Project, target: TableName) -> Place:
    system = target.format or project.format
    table = f"{system}:{target.name}"
    here, known_as = _warehouse(settings) if system == DELTA else _server(settings, system)
    if settings.environment is None:
        return Place(here, table, known_as)
    return Place(settings.environment, table, formerly=tuple(dict.fromkeys((here, known_as))))


def _warehouse(settings: Settings) -> tuple[str, str]:
    """As this ledger calls it, and as anybody would."""
    place, root = Path(os.path.realpath(settings.warehouse)), Path(os.path.realpath(settings.root))
    inside = place.is_relative_to(root) and _ledger_is_inside(settings, root)
    return (f"./{place.relative_to(root).as_posix()}" if inside else str(place)), str(place)


def _ledger_is_inside(settings: Settings, root: Path) -> bool:
    scheme, _, rest = settings.ledger_url.partition(":///")
    file = unquote(rest.partition("?")[0])
    return scheme.startswith("sqlite") and Path(os.path.realpath(file)).is_relative_to(root)


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
