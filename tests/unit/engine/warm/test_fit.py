"""Whether a warm Spark is the very one a command would start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from twice.engine.session import jars
from twice.engine.session.spark_conf import SessionSettings
from twice.engine.warm import fit
from twice.engine.warm.fit import digests, misfit, needs

KEY = "a key"


@pytest.fixture(autouse=True)
def no_java_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "ready", lambda cache: (Path("/delta.jar"),))
    monkeypatch.setattr(fit, "find_java", lambda: None)
    monkeypatch.setattr(fit, "archive_for", lambda *_: type("", (), {"path": Path("archive.jsa")}))


def settings(**others: object) -> SessionSettings:
    return SessionSettings(Path("/p/.twice"), Path("/p/warehouse"), memory="1g", scratch="one", **others)  # type: ignore[arg-type]


def difference(kept: dict[str, str], wanted: dict[str, str]) -> str | None:
    return misfit(digests(kept, KEY), digests(wanted, KEY))


def test_the_same_fits() -> None:
    assert difference(needs(settings(), {"AWS_PROFILE": "x"}), needs(settings(), {"AWS_PROFILE": "x"})) is None


def test_a_warehouse_memory_and_scratch_folder_are_each_commands_own() -> None:
    other = SessionSettings(Path("/q/.twice"), Path("/q/other"), memory="2g", scratch="two")
    assert difference(needs(settings(), {}), needs(other, {})) is None


@pytest.mark.parametrize(
    ("kept", "wanted", "named"),
    [
        (needs, {"AWS_PROFILE": "prod"}, "environment variable AWS_PROFILE"),
        (needs, {"PYSPARK_SUBMIT_ARGS": "--jars x.jar"}, "environment variable PYSPARK_SUBMIT_ARGS"),
    ],
)
def test_a_variable_that_a_task_could_read_must_be_the_same(kept: object, wanted: dict[str, str], named: str) -> None:
    assert difference(needs(settings(), {}), needs(settings(), wanted)) == f"another {named}"
    assert difference(needs(settings(), wanted), needs(settings(), {})) == f"another {named}"


def test_what_tells_one_terminal_from_another_may_differ() -> None:
    terminal = {"TERM": "xterm", "COLUMNS": "80", "SSH_TTY": "/dev/pts/1", "SHLVL": "2", "TWICE_PROFILE": "dev"}
    assert difference(needs(settings(), {}), needs(settings(), terminal)) is None


def test_settings_the_folder_and_python_must_be_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = needs(settings(), {})
    named = "setting spark.sql.shuffle.partitions"
    assert difference(here, needs(settings(conf={"spark.sql.shuffle.partitions": "8"}), {})) == f"another {named}"
    assert difference(here, needs(settings(short_jobs=True), {})) == "another setting spark.driver.extraJavaOptions"
    monkeypatch.chdir(tmp_path)
    assert difference(here, needs(settings(), {})) == "another working folder"
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    made = needs(settings(), {})
    there.rename(tmp_path / "before")
    there.mkdir()
    monkeypatch.chdir(there)
    assert difference(made, needs(settings(), {})) == "another working folder", "deleted and made again"
    monkeypatch.setattr(sys, "executable", "/another/python")
    found = difference(here, needs(settings(), {"AWS_PROFILE": "x"}))
    assert found == "another Python, and 2 more"


def test_files_that_java_reads_as_it_starts_must_be_the_same(tmp_path: Path) -> None:
    here = {"SPARK_CONF_DIR": str(tmp_path)}
    before = needs(settings(), here)
    assert difference(before, needs(settings(), here)) is None
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.ansi.enabled false")
    assert difference(before, needs(settings(), here)) == "another file of settings"


def test_another_version_of_twice_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    before = needs(settings(), {})
    monkeypatch.setattr(fit, "__version__", "another")
    assert difference(before, needs(settings(), {})) == "another twice"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it")
def test_the_modes_of_what_java_writes_must_be_the_same() -> None:
    before = needs(settings(), {})
    usual = os.umask(0o177)
    try:
        assert difference(before, needs(settings(), {})) == "another umask"
    finally:
        os.umask(usual)


def test_no_value_is_kept_in_the_open() -> None:
    kept = digests(needs(settings(conf={"spark.hadoop.fs.s3a.secret.key": "hush"}), {"TOKEN": "hush"}), KEY)
    assert "hush" not in str(kept)
    assert digests({"TOKEN": "hush"}, "another key")["TOKEN"] != digests({"TOKEN": "hush"}, KEY)["TOKEN"]
