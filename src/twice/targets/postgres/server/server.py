"""One PostgreSQL server as twice uses it: few connections, each with its limits, none kept between two uses.

A connection is made for each transaction and closed after it, so a server that was restarted or moved is noticed at
once and none is left open by a run that was killed. Limits are set inside the transaction: they hold behind a
pooler too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from twice.config import ConnectionSettings
from twice.errors import EnvironmentProblem
from twice.targets.postgres.location import location_of
from twice.targets.postgres.server.errors import explained, unreachable

Connection = psycopg.Connection[Any]
Isolation = Literal["read committed", "repeatable read"]

_DEFAULTS = {
    "application_name": "twice",
    "connect_timeout": "10",
    # A line that went dead is noticed in about a minute, not in two hours.
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_SETTINGS = """
    SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, YMD', true),
           set_config('intervalstyle', 'postgres', true), set_config('bytea_output', 'hex', true),
           set_config('extra_float_digits', '1', true),
           set_config('lock_timeout', {lock}, true), set_config('statement_timeout', {statement}, true),
           set_config('idle_in_transaction_session_timeout', {idle}, true)
"""


@dataclass(frozen=True)
class Limits:
    """In seconds; 0 is without end. `idle`: how long the server lets an idle transaction of a lost process hold its
    locks. `connections`: of this process at once. `tasks`: of Spark at once, reading or writing."""

    lock: float = 60
    statement: float = 3600
    idle: float = 600
    connections: int = 4
    tasks: int = 8


def limits_of(settings: ConnectionSettings) -> Limits:
    return Limits(
        settings.lock_seconds,
        settings.statement_seconds,
        settings.idle_seconds,
        settings.driver_connections,
        settings.task_connections,
    )


class Server:
    """`name` is the connection's in twice.toml; `url` any PostgreSQL URL, whose own parameters win over ours."""

    def __init__(self, name: str, url: str, limits: Limits | None = None) -> None:
        self.name = name
        self.limits = limits or Limits()
        conninfo = None if location_of(url) is None else _conninfo(url)
        if conninfo is None:
            raise EnvironmentProblem(
                f"the URL of the connection {name} cannot be read",
                fix="Write postgresql://user:${env:PASSWORD}@host:5432/database; in a password %40 for @, %2F for /.",
            )
        self._conninfo = conninfo
        self._free = BoundedSemaphore(self.limits.connections)

    def __repr__(self) -> str:
        return f"Server({self.name})"

    @property
    def secret(self) -> str:
        """How to connect, with the password: hand it to a driver and to nothing else."""
        return self._conninfo

    @contextmanager
    def transaction(self, isolation: Isolation = "read committed", doing: str = "") -> Iterator[Connection]:
        """A connection with a transaction begun: committed at the end, rolled back if it is left by an error.

        Dying inside is a rollback: the server gives up a transaction whose client is gone.
        """
        with self._free, self.connected() as connection:
            try:
                with connection.transaction():
                    self.begin(connection, isolation)
                    yield connection
            except psycopg.Error as error:
                raise explained(error, self.name, doing) from error

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        connection = self.connect()
        try:
            yield connection
        finally:
            connection.close()

    def connect(self) -> Connection:
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            raise unreachable(error, self.name) from error
        connection.prepare_threshold = None  # a pooler may give the next transaction another backend
        return connection

    def begin(self, connection: Connection, isolation: Isolation, idle: float | None = None) -> None:
        """What a transaction must not take from its surroundings. The first statement in it."""
        if isolation == "repeatable read":
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        else:
            connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.execute(self.settings(idle))

    def settings(self, idle: float | None = None) -> sql.Composed:
        limits = self.limits
        milliseconds = {
            "lock": limits.lock,
            "statement": limits.statement,
            "idle": limits.idle if idle is None else idle,
        }
        return sql.SQL(_SETTINGS).format(
            **{name: sql.Literal(str(int(seconds * 1000))) for name, seconds in milliseconds.items()}
        )


def _conninfo(url: str) -> str | None:
    """None for what is not a URL. The driver's own error would repeat it, with the password in it; so would that of a
    host or port that is a piece of the password, for which `location_of` finds none."""
    try:
        given = conninfo_to_dict(url.replace("postgresql+psycopg://", "postgresql://", 1))
        return make_conninfo("", **{**_DEFAULTS, **given})
    except psycopg.Error:
        return None
