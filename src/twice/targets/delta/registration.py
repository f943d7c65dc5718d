"""Delta tables in the project's warehouse."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from twice.config import Settings
from twice.core.ports import Target
from twice.core.task import TableName
from twice.targets.registration import Location, Opening, Registration


@dataclass(frozen=True)
class Warehouse:
    """Holds nothing open: what a run's session keeps goes with that session."""

    opening: Opening

    def target(self, session: Any) -> Target:
        from twice.targets.delta.target import DeltaTarget

        settings = self.opening.settings
        return DeltaTarget(
            session, lambda table: folder(settings, table), self.opening.instruments(), internal=settings.internal
        )

    def release(self, session: Any) -> None:
        """Nothing is open."""


def folder(settings: Settings, table: TableName) -> str:
    return str(settings.warehouse.joinpath(*table.name.split(".")))


def _reader(opening: Opening) -> AbstractContextManager[Target]:
    from twice.targets.delta.reader import DeltaReader

    return nullcontext(cast(Target, DeltaReader(lambda table: folder(opening.settings, table))))


def _location(settings: Settings, name: str) -> Location:  # noqa: ARG001 - there is one warehouse
    return Location(settings.warehouse_name, os.path.realpath(settings.warehouse))


DELTA = Registration("delta", open=Warehouse, location=_location, folder=folder, reader=_reader)
