"""Whether a server answers, and whether it is one that twice can use: for `twice doctor`."""

from __future__ import annotations

import psycopg

from twice.errors import EnvironmentProblem
from twice.targets.postgres.location import location_of
from twice.targets.postgres.server.errors import unreachable
from twice.targets.postgres.server.server import Server

OLDEST = 15
SECONDS = 3
"""How long to wait for an answer: a person is waiting for the doctor."""


def answer(name: str, url: str) -> str:
    """The server's version and place. Reads nothing but that."""
    try:
        with psycopg.connect(Server(name, url).secret, connect_timeout=SECONDS) as connection:
            major = connection.info.server_version // 10_000
    except psycopg.OperationalError as error:
        raise unreachable(error, name) from error
    if major < OLDEST:
        raise EnvironmentProblem(
            f"the connection {name} leads to PostgreSQL {major}", fix=f"Use PostgreSQL {OLDEST} or newer."
        )
    return f"PostgreSQL {major} answers at {location_of(url)}"
