"""What `twice doctor` checks: this machine, and the project of this folder: its tasks, ledger, connections, room.

Without `deep` nothing is started, fetched or written, and each question to a server waits three seconds at most.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from twice.config import Settings, load
from twice.config.sources import is_project
from twice.core.names.first_few import first_few
from twice.core.ports import SILENT, Progress
from twice.core.project.graph import TaskNode, graph
from twice.core.project.project import Project
from twice.core.results.summary import counted
from twice.core.task import TableName
from twice.engine.session.doctor import Check, existing_part, guarded, quick_checks, room
from twice.errors import DeclarationError, TwiceError
from twice.ledgers.database.probe import FoundLedger, probe
from twice.project.machine import deep_checks
from twice.wiring.discover import discover
from twice.wiring.open_project import NEEDS_SESSION
from twice.wiring.targets import Targets

CLOCKS_APART = timedelta(minutes=1)
"""So far a ledger's clock may be from the machine's. No promise rests on it; a person who reads both times does."""


def doctor(folder: Path, profile: str | None, deep: bool, progress: Progress = SILENT) -> Iterator[Check]:
    """Each check as it is done. Outside a project only the machine is checked."""
    progress.begins("checking", "this machine")
    settings, project = _project(folder, profile)
    internal = settings is None or settings.internal
    machine = []
    for check in quick_checks(internal=internal):
        machine.append(check)
        yield check
    yield project
    progress.begins("checking", "the project" if settings is not None else "this machine")
    if settings is not None:
        yield from _project_checks(settings)
    else:
        yield _clock(None)
    if deep:
        progress.begins("starting", "Spark")
        for check in deep_checks(machine, internal):
            progress.begins("trying to write, commit and read", "Spark")
            yield check


def _project(folder: Path, profile: str | None) -> tuple[Settings | None, Check]:
    if folder == Path() and not is_project(folder):
        return None, Check("project", True, "none in this folder: only the machine is checked")
    try:
        settings = load(folder, profile)
    except TwiceError as error:
        return None, Check("project", False, f"{error.where}: {error.what}" if error.where else error.what, error.fix)
    chosen = f", profile {settings.profile}" if settings.profile else ""
    return settings, Check("project", True, f"{settings.project} ({settings.file}{chosen})")


def _project_checks(settings: Settings) -> Iterator[Check]:
    with ThreadPoolExecutor(max_workers=8) as asking:  # servers answer while the tasks are imported
        ledger = asking.submit(_ledger, settings)
        connections = [
            asking.submit(guarded, f"connection {name}", partial(_connection, settings, name))
            for name in sorted(settings.connections)
        ]
        yield from _tasks(settings)
        found, check = ledger.result()
        yield check
        yield from (each.result() for each in connections)
    yield _writable("warehouse", settings.warehouse)
    yield _writable("scratch", settings.root / ".twice")
    yield _clock(found)


def _tasks(settings: Settings) -> Iterator[Check]:
    try:
        project = discover(settings.project, settings.root, settings.pipelines, settings.format)
    except DeclarationError as error:
        if NEEDS_SESSION in str(error.__cause__):
            yield Check("tasks", True, "not looked at: a pipeline file has Spark read a type, which starts it")
            return
        where = f"{error.where}: " if error.where else ""
        yield Check("tasks", False, f"{where}{error.what}", error.fix)
        return
    folders = ", ".join(str(folder.relative_to(settings.root)) for folder in settings.pipelines)
    if not project.tasks:
        yield Check("tasks", False, f"none in {folders}", "Declare one: @task(…), or sql_task(…), in a file there.")
        return
    yield Check("tasks", True, f"{counted(len(project.tasks), 'task')} in {folders}")
    yield guarded("graph", partial(_graph, settings, project))


def _graph(settings: Settings, project: Project) -> Check:
    nodes = graph(project)
    steps = counted(max(node.level for node in nodes), "step")
    missing = _missing(settings, nodes)
    if not missing:
        return Check("graph", True, f"{steps}, one after the other")
    return Check("graph", True, f"{steps}; read, written by no task, and not there yet: {first_few(missing)}")


def _missing(settings: Settings, nodes: tuple[TaskNode, ...]) -> list[str]:
    """Delta tables from elsewhere that are not in the warehouse. A server is not asked for its tables here."""
    targets = Targets(settings)
    read = [source for node in nodes for source in node.inputs if source.kind == "table"]
    outside = {source.table for source in read if source.task is None}
    folders = {table: targets.folder(TableName.parse(table)) for table in sorted(outside)}
    return [table for table, folder in folders.items() if folder and not Path(folder, "_delta_log").is_dir()]


def _ledger(settings: Settings) -> tuple[FoundLedger | None, Check]:
    found: list[FoundLedger] = []

    def look() -> Check:
        here = probe(settings.ledger_url)
        found.append(here)
        if here.schema is None:
            return Check("ledger", True, f"none yet: the first run makes {here.place}")
        state = "up to date" if here.is_current else "of an earlier twice: the next command brings it up to date"
        return Check("ledger", True, f"{here.place}, schema {here.schema}, {state}")

    check = guarded("ledger", look)
    return (found[0] if found else None), check


def _connection(settings: Settings, name: str) -> Check:
    return Check(f"connection {name}", True, Targets(settings).probe(name))


def _writable(name: str, folder: Path) -> Check:
    place = existing_part(folder)
    if not os.access(place, os.W_OK | os.X_OK):
        return Check(name, False, f"{place} cannot be written", f"Give this user the right to write to {folder}.")
    return guarded(name, lambda: room(name, place)[0])


def _clock(ledger: FoundLedger | None) -> Check:
    now = datetime.now().astimezone()
    here = f"{now:%Y-%m-%d %H:%M} {now.tzname()}"
    if ledger is None or ledger.ahead is None:
        return Check("clock", True, here)
    apart = abs(ledger.ahead)
    side = "ahead" if ledger.ahead > timedelta(0) else "behind"
    detail = f"{here}; the ledger's is {apart.total_seconds():,.0f} s {side}"
    if apart <= CLOCKS_APART:
        return Check("clock", True, f"{here}; the ledger's agrees")
    return Check("clock", False, detail, "Set this machine's clock (NTP), or the server's. No run is wrong by it.")
