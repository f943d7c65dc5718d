"""The one clock that all hosts share: the database's own."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from twice.core.ports.clock import SYSTEM_CLOCK
from twice.ledgers.database.schema import UtcTime


def database_time(connection: Connection) -> datetime:
    if connection.dialect.name == "sqlite":
        return SYSTEM_CLOCK.now()  # the file's readers are all on this machine
    # Not now(), which is the time when the transaction began: it may have waited for a lock.
    return connection.execute(select(func.clock_timestamp(type_=UtcTime))).scalar_one()
