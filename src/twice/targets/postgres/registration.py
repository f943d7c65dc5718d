"""PostgreSQL servers: one per connection of twice.toml."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from twice.config import Settings
from twice.core.ports import Target
from twice.core.task import TableName
from twice.errors import DeclarationError
from twice.targets.postgres.location import former_location, location_of
from twice.targets.registration import Location, Opening, Registration, TableSystem

_DRIVERS = 'pip install "psycopg[binary]>=3.2" "adbc-driver-postgresql>=1.8" "pyarrow>=18"'


def _open(opening: Opening) -> TableSystem:
    with _drivers(opening.name):
        from twice.targets.postgres.target import PostgresSystem
    return PostgresSystem(opening.name, opening.settings.connections[opening.name])


@contextmanager
def _reader(opening: Opening) -> Iterator[Target]:
    with _drivers(opening.name):
        from twice.targets.postgres.reader import PostgresReader
        from twice.targets.postgres.server.server import Server, limits_of
    settings = opening.settings.connections[opening.name]
    reader = PostgresReader(Server(opening.name, settings.url.reveal(), limits_of(settings)))
    try:
        yield cast(Target, reader)
    finally:
        reader.close()


def _probe(settings: Settings, name: str) -> str:
    with _drivers(name):
        import adbc_driver_postgresql  # noqa: F401 - a run needs it, asking the server does not

        from twice.targets.postgres.server.probe import answer
    return answer(name, settings.connections[name].url.reveal())


@contextmanager
def _drivers(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        raise DeclarationError(
            f"{name}: PostgreSQL needs the package {missing.name}", fix=f"Install the drivers: {_DRIVERS}."
        ) from missing


def _check_name(table: TableName) -> None:
    from twice.targets.postgres.server.names import relation_of

    relation_of(table)


def _location(settings: Settings, name: str) -> Location:
    """A server by its host, port and database: no user, no password. One whose URL cannot be read is named by its
    connection; whoever opens its tables gets the error."""
    url = settings.connections[name].url.reveal()
    place, former = location_of(url) or name, former_location(url)
    return Location(place, place, () if former in (None, place) else (former,))


POSTGRES = Registration(
    "postgres",
    open=_open,
    location=_location,
    # Without a scheme it is libpq's own form: host=… dbname=….
    schemes=("postgresql", "postgres", "postgresql+psycopg", ""),
    check_name=_check_name,
    probe=_probe,
    reader=_reader,
)
