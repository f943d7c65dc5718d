"""One connection of twice.toml, opened: its server, and a snapshot for each run that reads from it."""

from __future__ import annotations

import weakref
from typing import Any

from twice.config import ConnectionSettings
from twice.core.ports import Target
from twice.targets.postgres.frames.spark import SparkFrames
from twice.targets.postgres.read.snapshot import Snapshots
from twice.targets.postgres.server.server import Limits, Server
from twice.targets.postgres.target import PostgresTarget


class PostgresSystem:
    def __init__(self, name: str, settings: ConnectionSettings) -> None:
        limits = Limits(
            settings.lock_seconds,
            settings.statement_seconds,
            settings.idle_seconds,
            settings.driver_connections,
            settings.task_connections,
        )
        self._server = Server(name, settings.url.reveal(), limits)
        self._snapshots: weakref.WeakKeyDictionary[Any, Snapshots] = weakref.WeakKeyDictionary()

    def target(self, session: Any) -> Target:
        if session not in self._snapshots:
            self._snapshots[session] = Snapshots(self._server)
            # A session that nobody releases by name (a preview in a notebook) closes its snapshots when it is gone.
            weakref.finalize(session, self._snapshots[session].close)
        return PostgresTarget(self._server, SparkFrames(session, self._server.limits.tasks), self._snapshots[session])

    def release(self, session: Any) -> None:
        snapshots = self._snapshots.pop(session, None)
        if snapshots is not None:
            snapshots.close()
