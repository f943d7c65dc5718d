"""What a database's complaint means to a person. No URL leaves here with its password."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from twice.errors import EnvironmentProblem

# SQLite's own words (they are part of its stable interface), what they mean here, and what helps.
_KNOWN = (
    (
        "database is locked",
        "another process has been writing to the ledger for too long",
        "See who holds it (lsof on the file); run again when that process has ended.",
    ),
    ("readonly", "the ledger cannot be written", "Make the file and its folder writable for this user."),
    ("database or disk is full", "the ledger's disk is full", "Free some space, then run again: it will look first."),
    (
        "file is not a database",
        "the file is not a ledger",
        "Give another path for the ledger, or move this file away: a new ledger is made in its place.",
    ),
    (
        "malformed",
        "the ledger file is damaged",
        "Restore it from a backup, or move it away: what is published is read from the tables again.",
    ),
    (
        "unable to open database file",
        "the ledger cannot be opened",
        "Check that the folder exists and that this user may read and write it.",
    ),
    ("disk I/O error", "the ledger's disk gives errors", "Check the disk (dmesg), then run again: it will look first."),
    (
        "no such table",
        "the ledger has lost its tables: the file was replaced while it was in use",
        "Run again: what is published is read from the tables.",
    ),
)


def shown(url: URL) -> str:
    """The URL as messages may show it. A file is named by its path, anything else without its secrets."""
    if url.get_backend_name() == "sqlite":
        return url.database or "sqlite in memory"
    return url.set(query={}).render_as_string(hide_password=True)


def problem(what: str, url: URL, fix: str) -> EnvironmentProblem:
    return EnvironmentProblem(what, where=f"ledger {shown(url)}", fix=fix)


@contextmanager
def told_plainly(url: URL) -> Iterator[None]:
    """A database that cannot be used becomes an EnvironmentProblem; a broken rule of ours stays what it is."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        raise _explained(str(error.orig), url) from error
    except sqlite3.Error as error:
        raise _explained(str(error), url) from error
    except PoolTimeout as error:
        raise problem("no connection to the ledger came free", url, "Run fewer attempts at once.") from error
    except OSError as error:
        raise problem(
            f"the ledger cannot be opened: {error.strerror or error}", url, "Check the path and its permissions."
        ) from error


def _explained(complaint: str, url: URL) -> EnvironmentProblem:
    # Only the first line: PostgreSQL adds hints that may quote what was sent.
    first = complaint.strip().partition("\n")[0]
    if url.password:
        first = first.replace(str(url.password), "***")
    for words, what, fix in _KNOWN:
        if words in complaint:
            return problem(f"{what} ({first})", url, fix)
    return problem(f"the ledger cannot be used ({first})", url, "Check the ledger's URL and that its server is up.")
