"""What is at a ledger's URL, without making or changing anything there: for `twice doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import URL, Engine

from twice.core.ports.clock import SYSTEM_CLOCK
from twice.ledgers.database.clock import database_time
from twice.ledgers.database.connect import connect, parse_url
from twice.ledgers.database.errors import plain_errors, shown
from twice.ledgers.database.migrate import refuse_newer, version_of
from twice.ledgers.database.schema import HEAD

SECONDS = 3
"""How long to wait for a server: a person is waiting for the doctor."""


@dataclass(frozen=True)
class FoundLedger:
    """`place` is its URL without secrets. `schema`: None where there is no ledger yet. `ahead`: of the machine's clock;
    None for a file, whose clock that is."""

    place: str
    schema: str | None
    ahead: timedelta | None = None

    @property
    def is_current(self) -> bool:
        return self.schema == HEAD


def probe(text: str) -> FoundLedger:
    """An error of ours says why it cannot be used."""
    url = _patient(parse_url(text))
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return FoundLedger(shown(url), None)
    engine = connect(url)
    try:
        with plain_errors(url):
            return _look(engine)
    finally:
        engine.dispose()


def _look(engine: Engine) -> FoundLedger:
    with engine.begin() as connection:
        schema = version_of(connection)
        asked = SYSTEM_CLOCK.now()
        theirs = database_time(connection)
        answered = SYSTEM_CLOCK.now()
    if schema != HEAD:
        refuse_newer(engine, schema)
    is_file = engine.url.get_backend_name() == "sqlite"
    return FoundLedger(shown(engine.url), schema, None if is_file else _ahead(theirs, asked, answered))


def _ahead(theirs: datetime, asked: datetime, answered: datetime) -> timedelta:
    """Nothing, where their time lies between asking and being answered."""
    if asked <= theirs <= answered:
        return timedelta(0)
    return theirs - answered if theirs > answered else theirs - asked


def _patient(url: URL) -> URL:
    if url.get_backend_name() == "sqlite" or "connect_timeout" in url.query:
        return url
    return url.update_query_dict({"connect_timeout": str(SECONDS)})
