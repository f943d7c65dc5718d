"""Migrations make exactly the schema that the code uses, without noise, and only when there is something to do."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from twice.ledgers.database.effect_tables import whole_schema
from twice.ledgers.database.migrate import MIGRATIONS, known_versions
from twice.ledgers.database.schema import HEAD, VERSION_TABLE
from twice.ledgers.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    return path


def described(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name LIKE 'twice%'")
        return {name: " ".join(sql.split()) for name, sql in rows if name != VERSION_TABLE}


def test_the_migrated_schema_is_the_one_the_code_describes(path: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh.db"
    engine = create_engine(f"sqlite:///{fresh}")
    whole_schema().create_all(engine)
    engine.dispose()
    assert described(path) == described(fresh)


def test_alembic_sees_nothing_left_to_migrate(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), whole_schema()) == []
    engine.dispose()


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD]
    assert HEAD in known_versions()


def test_migrating_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("alembic").setLevel(logging.NOTSET)
    Ledger.open(f"sqlite:///{tmp_path}/ledger.db").close()
    assert [record for record in caplog.records if record.name.startswith("alembic") and record.levelno < 30] == []
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("alembic").level == logging.NOTSET


def test_a_ledger_that_is_up_to_date_is_opened_without_alembic(path: Path) -> None:
    code = (
        "import sys; from twice.ledgers.ledger import Ledger; "
        f"Ledger.open('sqlite:///{path}').close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_opening_again_changes_no_byte(path: Path) -> None:
    before = path.read_bytes()
    Ledger.open(f"sqlite:///{path}").close()
    assert path.read_bytes() == before


def test_tables_of_others_in_the_same_database_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE runs (theirs)")
        connection.execute("CREATE TABLE alembic_version (version_num)")
        connection.execute("INSERT INTO alembic_version VALUES ('theirs')")
    Ledger.open(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("theirs",)]
        assert connection.execute("SELECT count(*) FROM runs").fetchall() == [(0,)]
