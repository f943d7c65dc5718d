"""A database's errors as a person reads them. No URL leaves here with its password."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, quote_plus

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from twice.errors import EnvironmentProblem, LedgerOutOfReach
from twice.ledgers.database.known_errors import KnownError, of_postgres, of_sqlite


def shown(url: URL) -> str:
    """The URL as messages may show it. A file is named by its path, anything else without its secrets."""
    if url.get_backend_name() == "sqlite":
        return url.database or "sqlite in memory"
    return url.set(query={}, drivername=url.get_backend_name()).render_as_string(hide_password=True)


def problem(what: str, url: URL, fix: str, it: str = "ledger") -> EnvironmentProblem:
    return EnvironmentProblem(what, where=f"{it} {shown(url)}", fix=fix)


@contextmanager
def plain_errors(url: URL, it: str = "ledger") -> Iterator[None]:
    """A database that cannot be used becomes an EnvironmentProblem; a broken rule of ours stays what it is.
    `it` is what lives there."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        raise _explained(error, url, it) from error
    except sqlite3.Error as error:
        raise _described(of_sqlite(str(error)), str(error), url, it) from error
    except PoolTimeout as error:
        raise problem(f"no connection to the {it} came free", url, "Run fewer attempts at once.", it) from error
    except OSError as error:
        raise problem(
            f"the {it} cannot be opened: {error.strerror or error}", url, "Check the path and its permissions.", it
        ) from error


def _explained(error: DBAPIError, url: URL, it: str) -> EnvironmentProblem:
    message = str(error.orig)
    if url.get_backend_name() == "sqlite":
        return _described(of_sqlite(message), message, url, it)
    sqlstate = getattr(error.orig, "sqlstate", None)
    # An operational error without a SQLSTATE never came from a session: the connection was lost, or was never made.
    connection_lost = error.connection_invalidated or (
        sqlstate is None and type(error.orig).__name__ == "OperationalError"
    )
    return _described(of_postgres(message, sqlstate, connection_lost), message, url, it)


def _described(known: KnownError, message: str, url: URL, it: str) -> EnvironmentProblem:
    # Only the first line: PostgreSQL adds hints that may quote what was sent.
    first = _without_password(message.strip().partition("\n")[0], url)
    kind = LedgerOutOfReach if known.passing else EnvironmentProblem
    means, fix = known.means.format(it=it), known.fix.format(it=it)
    return kind(f"{means} ({first})", where=f"{it} {shown(url)}", fix=fix)


def _without_password(text: str, url: URL) -> str:
    for password in filter(None, (url.password, url.query.get("password"))):
        for form in {str(password), quote(str(password), safe=""), quote_plus(str(password))}:
            text = text.replace(form, "***")
    return text
