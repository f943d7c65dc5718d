"""`twice doctor` says of the machine and of the project what is wrong and what to do, and starts nothing."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner, Result

from twice.cli.main import app
from twice.core.ports.progress import Silent
from twice.engine.session.doctor import Check
from twice.ledgers.database.probe import FoundLedger, _ahead
from twice.ledgers.database.schema import HEAD
from twice.ledgers.ledger import Ledger
from twice.project.doctor import _clock, doctor

TASKS = """
from twice import Daily, Whole, read, replace, task

@task("shop.orders", scope=Daily("day", start="2026-01-01"), write=replace(),
      inputs={"raw": read("shop.raw", by="day")})
def orders(raw):
    return raw

@task("shop.revenue", scope=Whole(), write=replace(), inputs={"orders": read("shop.orders")})
def revenue(orders):
    return orders
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text('project = "shop"\n')
    (tmp_path / "pipelines" / "shop.py").write_text(TASKS)
    return tmp_path


def checks(folder: Path) -> dict[str, Check]:
    return {check.name: check for check in doctor(folder, None, deep=False)}


def call(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--project", str(folder), *options])


def test_a_sound_project_is_well_in_every_line_and_nothing_is_made(shop: Path) -> None:
    found = checks(shop)
    assert [check for check in found.values() if not check.ok] == []
    assert list(found) == [
        *("python", "java", "pyspark", "jars", "disk", "archive"),
        *("project", "tasks", "graph", "ledger", "warehouse", "scratch", "clock"),
    ]
    assert found["project"].detail == f"shop ({shop / 'twice.toml'})"
    assert found["tasks"].detail == "2 tasks in pipelines"
    assert found["graph"].detail == "2 steps; read, written by no task, and not there yet: shop.raw"
    assert found["ledger"].detail == f"none yet: the first run makes {shop / '.twice/ledger.db'}"
    assert found["warehouse"].detail.endswith(f" GB free at {shop}")
    assert {path.name for path in shop.iterdir()} == {"pipelines", "twice.toml"}


def test_files_and_params_are_no_tables_that_could_be_missing(shop: Path) -> None:
    files = 'read.files("landing/{ds}/*.csv", format="csv", schema="day DATE"), "rate": param.env("RATE", default="1")'
    text = TASKS.replace('read("shop.raw", by="day")', files).replace("(raw)", "(raw, rate)")
    (shop / "pipelines" / "shop.py").write_text(text.replace("import Daily,", "import Daily, param,"))
    assert checks(shop)["graph"] == Check("graph", True, "2 steps, one after the other")


def test_an_input_that_is_there_is_not_named(shop: Path) -> None:
    (shop / "warehouse" / "shop" / "raw" / "_delta_log").mkdir(parents=True)
    assert checks(shop)["graph"].detail == "2 steps, one after the other"


def test_a_ledger_that_is_there_says_its_schema(shop: Path) -> None:
    Ledger.open(f"sqlite:///{shop}/.twice/ledger.db").close()
    assert checks(shop)["ledger"].detail == f"{shop}/.twice/ledger.db, schema {HEAD}, up to date"


def test_an_older_ledger_is_not_changed_and_a_newer_one_is_a_problem(shop: Path) -> None:
    file = shop / ".twice" / "ledger.db"
    Ledger.open(f"sqlite:///{file}").close()
    for version, ok, says in (
        ("0001", True, "schema 0001, of an earlier twice: the next command brings it up to date"),
        ("9999", False, "a newer twice made this ledger"),
    ):
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE twice_schema SET version_num = ?", (version,))
        connection.close()
        found = checks(shop)["ledger"]
        assert (found.ok, bool(found.fix)) == (ok, not ok) and says in found.detail
        with sqlite3.connect(file) as connection:
            assert connection.execute("SELECT version_num FROM twice_schema").fetchone() == (version,)
        connection.close()


@pytest.mark.parametrize(
    ("file", "text", "name", "detail"),
    [
        ("twice.toml", 'project = "shop"\nwarehose = "w"\n', "project", "warehose"),
        ("twice.toml", "project = ", "project", "cannot be read as TOML"),
        ("pipelines/shop.py", "import nothing_of_that_name", "tasks", "pipelines/shop.py:1 cannot be imported"),
        ("pipelines/shop.py", "", "tasks", "none in pipelines"),
        ("pipelines/shop.py", TASKS.replace("shop.raw", "shop.revenue"), "tasks", "orders"),
        ("twice.toml", 'project = "shop"\nledger = "${env:NO_SUCH_URL}"\n', "ledger", "NO_SUCH_URL"),
        (
            "twice.toml",
            'project = "shop"\n[connections.erp]\nurl = "${env:NO_SUCH_URL}"\n',
            "connection erp",
            "NO_SUCH_URL",
        ),
        ("twice.toml", 'project = "shop"\n[connections.erp]\nurl = "mysql://h/d"\n', "connection erp", "mysql://"),
        (
            "twice.toml",
            'project = "shop"\n[connections.erp]\nurl = "postgresql://u:hunter2@localhost:1/d"\n',
            "connection erp",
            "cannot be reached",
        ),
    ],
)
def test_what_is_wrong_has_one_line_and_what_to_do(shop: Path, file: str, text: str, name: str, detail: str) -> None:
    (shop / file).write_text(text)
    wrong = {check.name: check for check in checks(shop).values() if not check.ok}
    assert set(wrong) == {name}
    assert detail in wrong[name].detail and wrong[name].fix
    assert "hunter2" not in str(wrong)


def test_a_warehouse_that_cannot_be_written_is_a_problem(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != shop / "warehouse")  # root may write everywhere
    (shop / "warehouse").mkdir()
    found = checks(shop)
    assert (found["warehouse"].ok, found["scratch"].ok) == (False, True)
    assert found["warehouse"].detail == f"{shop / 'warehouse'} cannot be written"


def test_outside_a_project_only_the_machine_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = checks(Path())
    assert found["project"].ok and "only the machine" in found["project"].detail
    assert "tasks" not in found
    asked_for = checks(tmp_path)["project"]
    assert not asked_for.ok and "there is no twice.toml" in asked_for.detail


def test_a_ledgers_clock_is_compared_with_the_machines() -> None:
    def at(seconds: float) -> Check:
        return _clock(FoundLedger("here", HEAD, timedelta(seconds=seconds)))

    assert at(-30).ok and at(-30).detail.endswith("; the ledger's agrees")
    assert not at(90).ok and at(90).detail.endswith("; the ledger's is 90 s ahead") and "NTP" in at(90).fix
    assert at(-4000).detail.endswith("; the ledger's is 4,000 s behind")
    asked = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)
    answered = asked + timedelta(seconds=4)
    assert _ahead(asked + timedelta(seconds=2), asked, answered) == timedelta(0)
    assert _ahead(asked + timedelta(seconds=5), asked, answered) == timedelta(seconds=1)
    assert _ahead(asked - timedelta(seconds=5), asked, answered) == timedelta(seconds=-5)


def test_the_command_says_it_line_by_line_and_as_json_with_the_same_keys(shop: Path) -> None:
    well = call(shop)
    assert well.exit_code == 0
    deep = f"twice doctor --project {shop} --deep"
    assert well.stdout.splitlines()[-1] == f"no problems found; {deep} also starts Spark and tries a commit"
    (shop / "pipelines" / "shop.py").write_text("")
    ill = call(shop)
    assert ill.exit_code == 4
    assert "FAIL  tasks: none in pipelines\n      Declare one: " in ill.stdout
    assert ill.stdout.splitlines()[-1] == "1 problem"
    data = json.loads(call(shop, "-o", "json").stdout)
    assert {*data} == {"schema_version", "checks"} and {*data["checks"][0]} == {"name", "ok", "detail", "fix"}


def test_it_starts_no_java_and_answers_within_seconds(shop: Path) -> None:
    home = shop / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    (home / "bin" / "java").write_text(f"#!/bin/sh\ntouch {shop}/started\n")
    (home / "bin" / "java").chmod(0o755)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "twice", "doctor"]
    environment = {**os.environ, "JAVA_HOME": str(home)}
    done = subprocess.run(command, cwd=shop, env=environment, capture_output=True, text=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout
    assert "Java 17.0.15" in done.stdout and not (shop / "started").exists()
    # In the processor's own time: the machine is noisy, a JVM or a library too many is not.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5


def test_it_says_what_it_checks_while_it_does(shop: Path) -> None:
    class Recording(Silent):
        steps: ClassVar[list[str]] = []

        def begins(self, step: str, where: str = "", detail: str = "") -> None:
            self.steps.append(f"{step} {where}")

    shown = {check.name: Recording.steps[-1] for check in doctor(shop, None, False, Recording())}
    assert shown["java"] == "checking this machine"
    assert shown["tasks"] == shown["ledger"] == "checking the project"
