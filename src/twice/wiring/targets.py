"""Which target has a table. A new target is one line in `TARGETS`; docs/adding-a-target.md says what else it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from twice.config import Settings
from twice.core.ports import NeedsEngine
from twice.core.task import TableName
from twice.errors import DeclarationError
from twice.targets.delta.registration import DELTA
from twice.targets.memory.registration import MEMORY
from twice.targets.postgres.registration import POSTGRES
from twice.targets.registration import FrameKind, Location, Opening, Registration, TableSystem

if TYPE_CHECKING:
    from twice.core.ports import Target
    from twice.targets.instruments import Instruments

TARGETS = (DELTA, POSTGRES, MEMORY)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Targets:
    """The table systems of a project, each opened when one of its tables is first asked for, then kept.

    What is before the colon of a table's name is the format of a target that needs no connection (`delta:`), or one of
    the connections of twice.toml, whose URL's scheme says which target it belongs to.
    """

    def __init__(
        self, settings: Settings, registered: Iterable[Registration] = TARGETS, frames: FrameKind = "spark"
    ) -> None:
        self._settings = settings
        self._registered = tuple(each for each in registered if each.frames == frames)
        self._opened: dict[str, TableSystem] = {}

    @contextmanager
    def readers(self) -> Iterator[Callable[[TableName], Target]]:
        """What answers without an engine, see `Registration.reader`: of each table system one, for one command."""
        readers: dict[str, Target] = {}

        def reader(table: TableName) -> Target:
            name = table.format or self._settings.format
            registration = self._registration(table, name)
            if registration.reader is None:
                raise NeedsEngine(f"a look at {table}")
            if name not in readers:
                readers[name] = opened.enter_context(registration.reader(Opening(name, self._settings, _instruments)))
            registration.check_name(table)
            return readers[name]

        with ExitStack() as opened:
            yield reader

    def of(self, table: TableName, session: Any) -> Target:
        name = table.format or self._settings.format
        registration = self._registration(table, name)
        if name not in self._opened:
            self._opened[name] = registration.open(Opening(name, self._settings, _instruments))
        registration.check_name(table)
        return self._opened[name].target(session)

    def folder(self, table: TableName) -> str | None:
        """Where a table's files are, if a proof can copy them; None for a table of another system. No connection's
        URL is read for it: a proof's own process has no secrets."""
        registration = self._formats.get(table.format or self._settings.format)
        if registration is None or registration.folder is None:
            return None
        return registration.folder(self._settings, table)

    def location(self, name: str) -> Location:
        """Of the tables of this format or connection. One that nobody knows is named by itself: whoever opens its
        tables gets the error."""
        registration = self._formats.get(name)
        if registration is None and name in self._settings.connections:
            registration = self._schemes.get(self._scheme(name))
        return Location(name, name) if registration is None else registration.location(self._settings, name)

    def probe(self, connection: str) -> str:
        """What answers at a connection of twice.toml, in a line. An error of ours says why nothing does."""
        registration = self._of_connection(connection)
        return registration.format if registration.probe is None else registration.probe(self._settings, connection)

    def release(self, session: Any) -> None:
        """Close what is open for a run's session. A second call finds nothing."""
        for system in self._opened.values():
            system.release(session)

    def _registration(self, table: TableName, name: str) -> Registration:
        if name in self._formats:
            return self._formats[name]
        if name not in self._settings.connections:
            known = ", ".join(f"{each}:" for each in (*sorted(self._formats), *sorted(self._settings.connections)))
            raise DeclarationError(
                f"{table}: there is no table system or connection {name!r}",
                fix=f"Known: {known} (or none). A PostgreSQL server is named in twice.toml: "
                f'[connections.{name}] url = "${{env:{name.upper()}_URL}}".',
            )
        return self._of_connection(name, f"{table}: ")

    def _of_connection(self, name: str, where: str = "") -> Registration:
        scheme = self._scheme(name)
        if scheme not in self._schemes:
            known = ", ".join(f"{each}://" for each in self._schemes if each)
            raise DeclarationError(
                f"{where}the connection {name} has a URL with {scheme}://, which belongs to no target",
                fix=f"Known: {known}. Correct url in [connections.{name}] of twice.toml.",
            )
        return self._schemes[scheme]

    @property
    def _formats(self) -> Mapping[str, Registration]:
        return {each.format: each for each in self._registered if not each.schemes}

    @property
    def _schemes(self) -> Mapping[str, Registration]:
        return {scheme: each for each in self._registered for scheme in each.schemes}

    def _scheme(self, name: str) -> str:
        found = _SCHEME.match(self._settings.connections[name].url.reveal().strip())
        return found[1].lower() if found else ""


def _instruments() -> Instruments:
    from twice.wiring.delta import INSTRUMENTS

    return INSTRUMENTS
