"""Which table system a table lives in, and what is kept open for it: a server per connection, snapshots per run."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from twice.config import Settings
from twice.core.task import TableName
from twice.errors import DeclarationError

if TYPE_CHECKING:
    from twice.core.ports import Target
    from twice.targets.postgres.read.snapshot import Snapshots
    from twice.targets.postgres.server.server import Server

DELTA = "delta"


class Targets:
    """What stands before the colon of a table's name is `delta` or one of the connections of twice.toml."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._servers: dict[str, Server] = {}
        self._snapshots: weakref.WeakKeyDictionary[Any, dict[str, Snapshots]] = weakref.WeakKeyDictionary()

    def of(self, table: TableName, session: Any) -> Target:
        system = table.format or self._settings.format
        if system == DELTA:
            from twice.wiring.delta import delta_target

            return delta_target(session, self._locate, internal=self._settings.internal)
        if system not in self._settings.connections:
            known = ", ".join(f"{name}:" for name in (DELTA, *sorted(self._settings.connections)))
            raise DeclarationError(
                f"{table}: there is no table system or connection {system!r}",
                fix=f"Known: {known} (or none). A PostgreSQL server is named in twice.toml: "
                f'[connections.{system}] url = "${{env:{system.upper()}_URL}}".',
            )
        return self._postgres(system, session)

    def folder(self, table: TableName) -> str | None:
        """Where a Delta table lies; None for a table of another system."""
        return self._locate(table) if (table.format or self._settings.format) == DELTA else None

    def let_go(self, session: Any) -> None:
        """Close what was held open for a run's session. A second call finds nothing."""
        for held in self._snapshots.pop(session, {}).values():
            held.close()

    def _postgres(self, name: str, session: Any) -> Target:
        try:
            from twice.targets.postgres.frames.spark import SparkFrames
            from twice.targets.postgres.read.snapshot import Snapshots
            from twice.targets.postgres.target import PostgresTarget
        except ModuleNotFoundError as missing:
            raise DeclarationError(
                f"{name}: PostgreSQL needs the package {missing.name}", fix="Install it: pip install 'twice[postgres]'."
            ) from missing
        server = self._server(name)
        held = self._snapshots.setdefault(session, {})
        if name not in held:
            held[name] = Snapshots(server)
            # A session that nobody lets go by name (a preview in a notebook) lets its snapshots go when it is gone.
            weakref.finalize(session, held[name].close)
        return PostgresTarget(server, SparkFrames(session, server.limits.tasks), held[name])

    def _server(self, name: str) -> Server:
        from twice.targets.postgres.server.server import Limits, Server

        if name not in self._servers:
            written = self._settings.connections[name]
            limits = Limits(
                written.lock_seconds,
                written.statement_seconds,
                written.idle_seconds,
                written.driver_connections,
                written.task_connections,
            )
            self._servers[name] = Server(name, written.url.reveal(), limits)
        return self._servers[name]

    def _locate(self, table: TableName) -> str:
        return str(self._settings.warehouse.joinpath(*table.name.split(".")))
