"""Bring a ledger's tables to the schema of this twice, in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from twice.ledgers.database.connect import for_writing
from twice.ledgers.database.errors import plain_errors, problem
from twice.ledgers.database.schema import HEAD, VERSION_TABLE

MIGRATIONS = Path(__file__).parents[1] / "migrations"

# Any number, as long as it is ours: PostgreSQL locks by number.
_ADVISORY_LOCK = 8_947_242_110_523


def migrate(engine: Engine) -> str | None:
    """Migrate to `HEAD`; the version found before. A ledger that is there already is only read. Two processes at once:
    one migrates, the other waits and finds it done. Dying here leaves the old schema: both databases roll tables
    back, too."""
    with plain_errors(engine.url):
        with engine.begin() as connection:
            if version_of(connection) == HEAD:
                return HEAD
        with for_writing(engine).begin() as connection:
            lock_schema(connection)
            found = version_of(connection)
            if found != HEAD:
                refuse_newer(engine, found)
                upgrade(connection)
            return found


def known_versions() -> set[str]:
    """Every schema version this twice can read, by its migrations."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


def version_of(connection: Connection) -> str | None:
    """The schema of the ledger that is there; None if there is none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()


def lock_schema(connection: Connection) -> None:
    """One process at a time makes or changes tables; the others wait until it has committed."""
    # SQLite has its lock since BEGIN IMMEDIATE.
    if connection.dialect.name == "postgresql":
        # Changing a big table takes what it takes, and so does waiting for who does it.
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ADVISORY_LOCK})


def refuse_newer(engine: Engine, found: str | None) -> None:
    if found is not None and found not in known_versions():
        raise problem(
            f"a newer twice made this ledger (its schema is {found}, this twice knows up to {HEAD})",
            engine.url,
            "Install the twice that made it, or a newer one.",
        )


def upgrade(connection: Connection, version: str = "head") -> None:
    """Make or change the tables on the caller's transaction, as far as that version."""
    # alembic is loaded only when there is something to migrate: it takes longer than opening the ledger.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _quiet():
        command.upgrade(config, version)


@contextmanager
def _quiet() -> Iterator[None]:
    """alembic logs each step at INFO; a user who logs at INFO wants to see pipelines."""
    logger = logging.getLogger("alembic")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
