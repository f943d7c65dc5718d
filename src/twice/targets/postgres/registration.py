"""PostgreSQL servers: one per connection of twice.toml."""

from __future__ import annotations

from twice.config import Settings
from twice.core.task import TableName
from twice.errors import DeclarationError
from twice.targets.postgres.location import former_location, location_of
from twice.targets.registration import Location, Opening, Registration, TableSystem


def _open(opening: Opening) -> TableSystem:
    try:
        from twice.targets.postgres.target import PostgresSystem
    except ModuleNotFoundError as missing:
        raise DeclarationError(
            f"{opening.name}: PostgreSQL needs the package {missing.name}",
            fix="Install it: pip install 'twice[postgres]'.",
        ) from missing
    return PostgresSystem(opening.name, opening.settings.connections[opening.name])


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
)
