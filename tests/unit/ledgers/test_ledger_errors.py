"""A ledger that cannot be used is reported plainly: what, where, what to do. Never a stack trace, never a secret."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event, make_url
from sqlalchemy.exc import OperationalError

from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import Busy, Claim, ClaimRequest
from twice.errors import EnvironmentProblem
from twice.ledgers.database.errors import plain_errors
from twice.ledgers.database.known_errors import of_postgres
from twice.ledgers.database.schema import HEAD
from twice.ledgers.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(f"sqlite:///{path}")
    yield opened
    opened.close()


def claim(ledger: Ledger, attempt: str = "one", *labels: str) -> Claim | Busy:
    return ledger.claim(ClaimRequest("t", labels or ["a"], attempt, "run", "h"), timedelta(minutes=1))


def problem_of(path: Path) -> EnvironmentProblem:
    with pytest.raises(EnvironmentProblem) as caught:
        Ledger.open(f"sqlite:///{path}")
    assert caught.value.where == f"ledger {path}"
    assert caught.value.fix
    assert caught.value.__cause__ is not None
    return caught.value


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("dear diary, " * 500)
    assert "the file is not a ledger" in str(problem_of(path))
    assert path.read_text() == "dear diary, " * 500


def test_a_damaged_ledger_is_reported_as_damaged(path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{path}")
    claim(ledger, "one", *[f"{n:04d}" for n in range(2000)])
    ledger.close()
    body = bytearray(path.read_bytes())
    body[4096 * 2 : 4096 * 20] = b"\xff" * (4096 * 18)
    path.write_bytes(bytes(body))
    with pytest.raises(EnvironmentProblem, match="the ledger file is damaged"):
        reopened = Ledger.open(f"sqlite:///{path}")
        try:
            reopened.runs()
        finally:
            reopened.close()


def test_a_folder_in_place_of_the_file_is_reported(path: Path) -> None:
    path.mkdir()
    assert "the ledger cannot be opened" in str(problem_of(path))


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    path = tmp_path / "state" / "ledger.db"
    assert "the ledger cannot be opened" in str(problem_of(path))


def test_a_ledger_that_cannot_be_written_is_reported_and_stays_as_it_was(ledger: Ledger) -> None:
    event.listen(ledger._engine, "checkout", lambda raw, *_: raw.execute("PRAGMA query_only = ON"))
    with pytest.raises(
        EnvironmentProblem, match=r"the ledger cannot be written .*Make the file and its folder writable"
    ):
        claim(ledger)
    assert ledger.runs() == ()


def test_a_full_disk_is_reported_and_nothing_is_half_written(ledger: Ledger) -> None:
    claim(ledger, "before")
    event.listen(ledger._engine, "checkout", lambda raw, *_: raw.execute("PRAGMA max_page_count = 1"))
    with pytest.raises(EnvironmentProblem, match="the ledger's disk is full"):
        claim(ledger, "big", *[f"{n:04d}" for n in range(2000)])
    assert ledger.attempt("big") is None
    assert len(ledger.runs()) == 1


def test_a_ledger_that_lost_a_table_is_reported(ledger: Ledger) -> None:
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE twice_leases")
    with pytest.raises(EnvironmentProblem, match="the ledger has lost its tables"):
        claim(ledger)


def test_a_ledger_of_a_newer_twice_is_refused_and_untouched(path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{path}")
    claim(ledger)
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE twice_schema SET version_num = '9999'")
    ledger.close()
    with pytest.raises(EnvironmentProblem) as caught:
        Ledger.open(f"sqlite:///{path}")
    assert str(caught.value) == (
        f"ledger {path}: a newer twice made this ledger (its schema is 9999, this twice knows up to {HEAD}). "
        "Install the twice that made it, or a newer one."
    )


def test_a_password_in_the_databases_own_words_is_hidden() -> None:
    url = make_url("postgresql+psycopg://me:s3kr1t@host/db?password=s3kr1t")
    with pytest.raises(EnvironmentProblem) as caught, plain_errors(url):
        raise OperationalError("SELECT s3kr1t", {"x": "s3kr1t"}, Exception("no login with s3kr1t\nhint: s3kr1t"))
    assert "s3kr1t" not in str(caught.value)
    assert str(caught.value).startswith("ledger postgresql://me:***@host/db: the ledger cannot be used")


def test_a_broken_rule_of_our_own_is_not_blamed_on_the_machine(ledger: Ledger) -> None:
    with pytest.raises(Exception, match="CHECK constraint") as caught:
        ledger.record_found("t", [FoundPublish("a", -1)])
    assert not isinstance(caught.value, EnvironmentProblem)


def test_a_database_that_does_not_exist_is_known_by_its_code_too() -> None:
    assert of_postgres("FATAL: nothing here", "3D000", False).means == "the {it}'s database does not exist"
